// The one list of blocks as the file knows them: what each has of flags, tensors and rules. What
// computes them is runtime/blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/blocks/attention_format.h"
#include "quant/blocks/feed_forward_formats.h"
#include "quant/blocks/latent_format.h"
#include "quant/blocks/per_layer_format.h"
#include "quant/blocks/recurrence_formats.h"

namespace cria {

// Functions that a block does not need are null.
struct BlockFormat {
  uint32_t flags;  // of LayerKind::flags, besides those of norms, that go with it
  std::span<const TensorRow> rows;
  // The field that is wrong, or null.
  const char* (*check)(const format::LayerKind&);
  // Bytes that a step computes with.
  uint64_t (*scratch)(const format::ModelScalars&, const format::LayerKind&, const StepShape&);
  // What each layer keeps of a conversation.
  StateParts (*state)(const format::ModelScalars&, const format::LayerKind&, KvFormat);
};

// Bytes that a block's lay_out takes.
template <auto lay_out>
[[nodiscard]] uint64_t scratch_of(const format::ModelScalars& m, const format::LayerKind& k,
                                  const StepShape& shape) {
  Carver carver;
  (void)lay_out(m, k, shape, &carver);
  return carver.taken();
}

// By format::Mixer and format::FeedForward.
inline constexpr BlockFormat kMixerFormats[] = {
    {},
    {attention::kFlags, attention::kRows, attention::check, scratch_of<attention::lay_out>,
     attention::state},
#if CRIA_WITH_LATENT
    {latent::kFlags, latent::kRows, latent::check, scratch_of<latent::lay_out>, latent::state},
#else
    {},
#endif
#if CRIA_WITH_RECURRENT
    {short_convolution::kFlags, short_convolution::kRows, nullptr,
     scratch_of<short_convolution::lay_out>, short_convolution::state},
    {recurrences::kFlags, delta_rule::kRows, recurrences::check_heads,
     scratch_of<recurrences::lay_out>, recurrences::state},
    {state_space::kFlags, state_space::kRows, recurrences::check_heads,
     scratch_of<recurrences::lay_out>, recurrences::state},
#else
    {},
    {},
    {},
#endif
};
inline constexpr BlockFormat kFeedForwardFormats[] = {
    {},
    {dense::kFlags, dense::kRows, nullptr, scratch_of<dense::lay_out>, nullptr},
#if CRIA_WITH_EXPERTS
    {experts::kFlags, experts::kRows, experts::check, scratch_of<experts::lay_out>, nullptr},
#else
    {},
#endif
};

// Whether this build knows a block. No block is one that every build knows.
[[nodiscard]] constexpr bool is_known(const BlockFormat& format, uint8_t number) {
  return number == 0 || !format.rows.empty();
}

// Tensors of a layer that belong to no block, and of the model, in the order of the file. Rows that
// only variants have are left out with them.
inline constexpr TensorRow kRowsBeforeMixer[] = {
    rows::vector(format::TensorRole::kMixerNorm, extents::kNorm,
                 extents::kWith<format::flag::kMixerNorm>),
};
inline constexpr TensorRow kRowsBehindMixer[] = {
#if CRIA_WITH_VARIANTS
    rows::vector(format::TensorRole::kMixerOutNorm, extents::kNorm,
                 extents::kWith<format::flag::kMixerOutNorm>),
#endif
    rows::vector(format::TensorRole::kFfnNorm, extents::kNorm,
                 extents::kWith<format::flag::kFfnNorm>),
};
#if CRIA_WITH_VARIANTS
inline constexpr TensorRow kRowsBehindFeedForward[] = {
    rows::vector(format::TensorRole::kFfnOutNorm, extents::kNorm,
                 extents::kWith<format::flag::kFfnOutNorm>),
    rows::matrix(format::TensorRole::kPerLayerGate, per_layer::kWidth, extents::kModel,
                 extents::kWith<format::flag::kPerLayerInput>),
    rows::matrix(format::TensorRole::kPerLayerOut, extents::kModel, per_layer::kWidth,
                 extents::kWith<format::flag::kPerLayerInput>),
    rows::vector(format::TensorRole::kPerLayerOutNorm, extents::kNorm,
                 extents::kWith<format::flag::kPerLayerInput>),
    rows::vector(format::TensorRole::kLayerScale, extents::kOne,
                 extents::kWith<format::flag::kLayerScale>),
};
#else
inline constexpr std::span<const TensorRow> kRowsBehindFeedForward;
#endif

namespace of_model {

using format::LayerKind;
using format::ModelScalars;

// Rates of all tables, one set after the other.
inline constexpr Size kRopeRates = [](const ModelScalars& m, const LayerKind&) -> uint32_t {
  uint32_t n = 0;
  for (const format::RopeTable& table : m.rope_tables) {
    n += table.original_context != 0 ? 2 * table.n_pairs : table.n_pairs;
  }
  return n;
};
inline constexpr Size kWithRope = [](const ModelScalars& m, const LayerKind&) -> uint32_t {
  return m.n_rope_tables != 0 ? 1 : 0;
};
inline constexpr Size kVocab = [](const ModelScalars& m, const LayerKind&) { return m.vocab_size; };
inline constexpr Size kPositionValues = [](const ModelScalars& m, const LayerKind&) -> uint32_t {
  return m.max_context * m.d_model;
};
inline constexpr Size kWithPositions = [](const ModelScalars& m, const LayerKind&) -> uint32_t {
  return (m.flags & format::kLearnedPositions) != 0 ? 1 : 0;
};
inline constexpr Size kFinalNorm = [](const ModelScalars& m, const LayerKind&) -> uint32_t {
  const bool has_biases =
      kHasVariants && m.final_norm == static_cast<uint32_t>(format::Norm::kLayerNorm);
  return m.d_model * (has_biases ? 2u : 1u);
};
inline constexpr Size kUntied = [](const ModelScalars& m, const LayerKind&) -> uint32_t {
  return (m.flags & format::kTiedEmbedding) == 0 ? 1 : 0;
};

}  // namespace of_model

inline constexpr TensorRow kRowsBeforeLayers[] = {
    rows::vector(format::TensorRole::kRope, of_model::kRopeRates, of_model::kWithRope),
    rows::matrix(format::TensorRole::kEmbedding, of_model::kVocab, extents::kModel),
#if CRIA_WITH_VARIANTS
    rows::vector(format::TensorRole::kPositions, of_model::kPositionValues,
                 of_model::kWithPositions),
    rows::matrix(format::TensorRole::kPerLayerTable, per_layer::kTableRows, per_layer::kWidth,
                 per_layer::kThere),
    rows::matrix(format::TensorRole::kPerLayerProjection, per_layer::kWidth, extents::kModel,
                 per_layer::kLayers),
    rows::vector(format::TensorRole::kPerLayerNorm, per_layer::kWidth, per_layer::kThere),
#endif
};
inline constexpr TensorRow kRowsBehindLayers[] = {
    rows::vector(format::TensorRole::kFinalNorm, of_model::kFinalNorm),
    rows::matrix(format::TensorRole::kLmHead, of_model::kVocab, extents::kModel, of_model::kUntied),
};

// Rows of a layer of a kind, part by part.
inline constexpr size_t kLayerParts = 5;
[[nodiscard]] constexpr std::span<const TensorRow> layer_part(const format::LayerKind& kind,
                                                              size_t part) {
  switch (part) {
    case 0:
      return kRowsBeforeMixer;
    case 1:
      return kMixerFormats[kind.mixer].rows;
    case 2:
      return kRowsBehindMixer;
    case 3:
      return kFeedForwardFormats[kind.feed_forward].rows;
    default:
      return kRowsBehindFeedForward;
  }
}

// Rows outside the layers: those before and after them. Their kind is all zero.
inline constexpr size_t kModelParts = 2;
inline constexpr format::LayerKind kOutsideLayers = {};
[[nodiscard]] constexpr std::span<const TensorRow> model_part(size_t part) {
  return part == 0 ? std::span<const TensorRow>(kRowsBeforeLayers) : kRowsBehindLayers;
}

}  // namespace cria
