// Mixers that keep a block of fixed size instead of a row a position: a short convolution, the
// gated delta rule, and state spaces (SSD).
#pragma once

#include "quant/blocks/state_part.h"
#include "quant/blocks/tensor_row.h"

namespace cria::recurrences {

using namespace extents;

// Channels of the convolution over queries, keys and values.
inline constexpr Size kChannels = [](const ModelScalars& m, const LayerKind& k) -> uint32_t {
  return kQueries(m, k) + kKeys(m, k) + kValues(m, k);
};
inline constexpr Size kTaps = [](const ModelScalars& m, const LayerKind& k) -> uint32_t {
  return k.conv_taps * kChannels(m, k);
};
inline constexpr Size kValueHeads = kField<&LayerKind::n_value_heads>;
inline constexpr Size kBias = kWith<format::flag::kMixerBias>;

// Key heads are as many as query heads, and each serves as many value heads.
[[nodiscard]] constexpr const char* check_heads(const LayerKind& k) {
  if (k.n_key_heads != k.n_query_heads) return "n_key_heads"_reason;
  return k.n_value_heads % k.n_key_heads != 0 ? "n_value_heads"_reason : nullptr;
}

inline constexpr uint32_t kFlags =
    format::flag::kMixerBias | format::flag::kOutputBias | format::flag::kConvolutionBias;

// What the delta rule and state spaces have alike, in the order of the file.
inline constexpr TensorRow kInputs[] = {
    rows::matrix(format::TensorRole::kQ, kQueries, kModel),
    rows::vector(format::TensorRole::kQBias, kQueries, kBias),
    rows::matrix(format::TensorRole::kK, kKeys, kModel),
    rows::vector(format::TensorRole::kKBias, kKeys, kBias),
    rows::matrix(format::TensorRole::kV, kValues, kModel),
    rows::vector(format::TensorRole::kVBias, kValues, kBias),
    rows::matrix(format::TensorRole::kMixerGate, kValues, kModel),
    rows::vector(format::TensorRole::kMixerGateBias, kValues, kBias),
    rows::float_matrix(format::TensorRole::kDecayIn, kValueHeads, kModel),
    rows::vector(format::TensorRole::kDecayInBias, kValueHeads, kBias),
};
inline constexpr TensorRow kConvolution[] = {
    rows::vector(format::TensorRole::kConvolution, kTaps),
    rows::vector(format::TensorRole::kConvolutionBias, kChannels,
                 kWith<format::flag::kConvolutionBias>),
    rows::vector(format::TensorRole::kDecay, kValueHeads),
    rows::vector(format::TensorRole::kDecayBias, kValueHeads),
};
inline constexpr TensorRow kOutput[] = {
    rows::matrix(format::TensorRole::kO, kModel, kValues),
    rows::vector(format::TensorRole::kOBias, kModel, kWith<format::flag::kOutputBias>),
};

// A state of each value head, and what the convolution reads of the positions before the next one.
inline constexpr size_t kStates = 0;   // [n_value_heads][key_dim][value_dim]
inline constexpr size_t kColumns = 1;  // [conv_taps - 1][channels]

[[nodiscard]] constexpr StateParts state(const ModelScalars& m, const LayerKind& k, KvFormat) {
  const uint32_t n_states = kValues(m, k) * k.key_dim;
  const uint32_t n_columns = (uint32_t{k.conv_taps} - 1) * kChannels(m, k);
  StateParts s = {1, 2, {}, Keeps::kBlock};
  s.parts[kStates] = {StateValues::kFloats, n_states * uint32_t{sizeof(float)}};
  s.parts[kColumns] = {StateValues::kFloats, n_columns * uint32_t{sizeof(float)}};
  return s;
}

// Of all rows of a step.
struct Scratch {
  float* q;      // [rows][n_query_heads * key_dim]
  float* k;      // [rows][n_key_heads * key_dim]
  float* v;      // [rows][n_value_heads * value_dim], then what queries bring back
  float* gate;   // the same, then what the output matrix reads
  float* decay;  // [rows][n_value_heads]
  float* beta;   // the same; the delta rule's
};

inline Scratch lay_out(const ModelScalars& m, const LayerKind& k, const StepShape& shape,
                       Carver* carver) {
  const auto take = [&](uint32_t n) { return carver->take<float>(shape.n_rows, n); };
  Scratch s = {};
  s.q = take(kQueries(m, k));
  s.k = take(kKeys(m, k));
  s.v = take(kValues(m, k));
  s.gate = take(kValues(m, k));
  s.decay = take(k.n_value_heads);
  s.beta = take(k.n_value_heads);
  return s;
}

}  // namespace cria::recurrences

namespace cria::short_convolution {

using namespace extents;

inline constexpr Size kTaps = [](const ModelScalars& m, const LayerKind& k) -> uint32_t {
  return k.conv_taps * m.d_model;
};

inline constexpr TensorRow kRows[] = {
    rows::matrix(format::TensorRole::kQ, kModel, kModel),
    rows::vector(format::TensorRole::kQBias, kModel, recurrences::kBias),
    rows::matrix(format::TensorRole::kK, kModel, kModel),
    rows::vector(format::TensorRole::kKBias, kModel, recurrences::kBias),
    rows::matrix(format::TensorRole::kV, kModel, kModel),
    rows::vector(format::TensorRole::kVBias, kModel, recurrences::kBias),
    rows::vector(format::TensorRole::kConvolution, kTaps),
    rows::vector(format::TensorRole::kConvolutionBias, kModel,
                 kWith<format::flag::kConvolutionBias>),
    rows::matrix(format::TensorRole::kO, kModel, kModel),
    rows::vector(format::TensorRole::kOBias, kModel, kWith<format::flag::kOutputBias>),
};

inline constexpr uint32_t kFlags = recurrences::kFlags;

// What the convolution reads of the positions before the next one.
[[nodiscard]] constexpr StateParts state(const ModelScalars& m, const LayerKind& k, KvFormat) {
  const uint32_t n_values = (uint32_t{k.conv_taps} - 1) * m.d_model;
  return {1, 1, {{{StateValues::kFloats, n_values * uint32_t{sizeof(float)}}}}, Keeps::kBlock};
}

// Of all rows of a step, [rows][d_model] each.
struct Scratch {
  float* q;  // then what the output matrix reads
  float* k;
  float* v;
};

inline Scratch lay_out(const ModelScalars& m, const LayerKind&, const StepShape& shape,
                       Carver* carver) {
  const auto take = [&] { return carver->take<float>(shape.n_rows, m.d_model); };
  Scratch s = {};
  s.q = take();
  s.k = take();
  s.v = take();
  return s;
}

}  // namespace cria::short_convolution

namespace cria::delta_rule {

using namespace recurrences;

inline constexpr TensorRow kBeta[] = {
    rows::float_matrix(format::TensorRole::kBetaIn, kValueHeads, kModel),
    rows::vector(format::TensorRole::kBetaInBias, kValueHeads, kBias),
};
inline constexpr TensorRow kInnerNorm[] = {
    rows::vector(format::TensorRole::kMixerInnerNorm, kField<&LayerKind::value_dim>),
};
inline constexpr auto kRows = rows::joined(kInputs, kBeta, kConvolution, kInnerNorm, kOutput);

}  // namespace cria::delta_rule

namespace cria::state_space {

using namespace recurrences;

inline constexpr TensorRow kOwn[] = {
    rows::vector(format::TensorRole::kSkip, kValueHeads),
    rows::vector(format::TensorRole::kMixerInnerNorm, kValues),
};
inline constexpr auto kRows = rows::joined(kInputs, kConvolution, kOwn, kOutput);

inline constexpr uint32_t kFlags = recurrences::kFlags | format::flag::kGroupedNorm;

}  // namespace cria::state_space
