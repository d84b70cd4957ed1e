// Mixers that keep a block of fixed size instead of a row a position: a short convolution, the
// gated delta rule, and state spaces (SSD).
#pragma once

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
  if (k.n_key_heads != k.n_query_heads) return "n_key_heads";
  return k.n_value_heads % k.n_key_heads != 0 ? "n_value_heads" : nullptr;
}

inline constexpr uint32_t kFlags =
    format::flag::kMixerBias | format::flag::kOutputBias | format::flag::kConvolutionBias;

}  // namespace cria::recurrences

namespace cria::short_convolution {

using namespace extents;

inline constexpr Size kTaps = [](const ModelScalars& m, const LayerKind& k) -> uint32_t {
  return k.conv_taps * m.d_model;
};

inline constexpr TensorRow kRows[] = {
    rows::matrix(format::TensorRole::kQ, "q", kModel, kModel),
    rows::vector(format::TensorRole::kQBias, "q.bias", kModel, recurrences::kBias),
    rows::matrix(format::TensorRole::kK, "k", kModel, kModel),
    rows::vector(format::TensorRole::kKBias, "k.bias", kModel, recurrences::kBias),
    rows::matrix(format::TensorRole::kV, "v", kModel, kModel),
    rows::vector(format::TensorRole::kVBias, "v.bias", kModel, recurrences::kBias),
    rows::vector(format::TensorRole::kConvolution, "convolution", kTaps),
    rows::vector(format::TensorRole::kConvolutionBias, "convolution.bias", kModel,
                 kWith<format::flag::kConvolutionBias>),
    rows::matrix(format::TensorRole::kO, "o", kModel, kModel),
    rows::vector(format::TensorRole::kOBias, "o.bias", kModel, kWith<format::flag::kOutputBias>),
};

inline constexpr uint32_t kFlags = recurrences::kFlags;

}  // namespace cria::short_convolution

namespace cria::delta_rule {

using namespace recurrences;

inline constexpr TensorRow kRows[] = {
    rows::matrix(format::TensorRole::kQ, "q", kQueries, kModel),
    rows::vector(format::TensorRole::kQBias, "q.bias", kQueries, kBias),
    rows::matrix(format::TensorRole::kK, "k", kKeys, kModel),
    rows::vector(format::TensorRole::kKBias, "k.bias", kKeys, kBias),
    rows::matrix(format::TensorRole::kV, "v", kValues, kModel),
    rows::vector(format::TensorRole::kVBias, "v.bias", kValues, kBias),
    rows::matrix(format::TensorRole::kMixerGate, "mixer_gate", kValues, kModel),
    rows::vector(format::TensorRole::kMixerGateBias, "mixer_gate.bias", kValues, kBias),
    rows::float_matrix(format::TensorRole::kDecayIn, "decay_in", kValueHeads, kModel),
    rows::vector(format::TensorRole::kDecayInBias, "decay_in.bias", kValueHeads, kBias),
    rows::float_matrix(format::TensorRole::kBetaIn, "beta_in", kValueHeads, kModel),
    rows::vector(format::TensorRole::kBetaInBias, "beta_in.bias", kValueHeads, kBias),
    rows::vector(format::TensorRole::kConvolution, "convolution", kTaps),
    rows::vector(format::TensorRole::kConvolutionBias, "convolution.bias", kChannels,
                 kWith<format::flag::kConvolutionBias>),
    rows::vector(format::TensorRole::kDecay, "decay", kValueHeads),
    rows::vector(format::TensorRole::kDecayBias, "decay_bias", kValueHeads),
    rows::vector(format::TensorRole::kMixerInnerNorm, "mixer_inner_norm",
                 kField<&LayerKind::value_dim>),
    rows::matrix(format::TensorRole::kO, "o", kModel, kValues),
    rows::vector(format::TensorRole::kOBias, "o.bias", kModel, kWith<format::flag::kOutputBias>),
};

}  // namespace cria::delta_rule

namespace cria::state_space {

using namespace recurrences;

inline constexpr TensorRow kRows[] = {
    rows::matrix(format::TensorRole::kQ, "q", kQueries, kModel),
    rows::vector(format::TensorRole::kQBias, "q.bias", kQueries, kBias),
    rows::matrix(format::TensorRole::kK, "k", kKeys, kModel),
    rows::vector(format::TensorRole::kKBias, "k.bias", kKeys, kBias),
    rows::matrix(format::TensorRole::kV, "v", kValues, kModel),
    rows::vector(format::TensorRole::kVBias, "v.bias", kValues, kBias),
    rows::matrix(format::TensorRole::kMixerGate, "mixer_gate", kValues, kModel),
    rows::vector(format::TensorRole::kMixerGateBias, "mixer_gate.bias", kValues, kBias),
    rows::float_matrix(format::TensorRole::kDecayIn, "decay_in", kValueHeads, kModel),
    rows::vector(format::TensorRole::kDecayInBias, "decay_in.bias", kValueHeads, kBias),
    rows::vector(format::TensorRole::kConvolution, "convolution", kTaps),
    rows::vector(format::TensorRole::kConvolutionBias, "convolution.bias", kChannels,
                 kWith<format::flag::kConvolutionBias>),
    rows::vector(format::TensorRole::kDecay, "decay", kValueHeads),
    rows::vector(format::TensorRole::kDecayBias, "decay_bias", kValueHeads),
    rows::vector(format::TensorRole::kSkip, "skip", kValueHeads),
    rows::vector(format::TensorRole::kMixerInnerNorm, "mixer_inner_norm", kValues),
    rows::matrix(format::TensorRole::kO, "o", kModel, kValues),
    rows::vector(format::TensorRole::kOBias, "o.bias", kModel, kWith<format::flag::kOutputBias>),
};

inline constexpr uint32_t kFlags = recurrences::kFlags | format::flag::kGroupedNorm;

}  // namespace cria::state_space
