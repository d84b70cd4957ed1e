// Feed-forwards: one MLP, or experts of which a router chooses some for each token.
#pragma once

#include <array>
#include <cstddef>
#include <iterator>

#include "quant/blocks/state_part.h"
#include "quant/blocks/tensor_row.h"

namespace cria::dense {

using namespace extents;

inline constexpr Size kWidth = kField<&LayerKind::d_ff>;

// Where there is an MLP, with these flags: beside experts there may be none.
template <uint32_t flags>
inline constexpr Size kMlp = [](const ModelScalars&, const LayerKind& k) -> uint32_t {
  return k.d_ff != 0 && (k.flags & flags) == flags ? 1 : 0;
};

inline constexpr TensorRow kRows[] = {
    rows::matrix(format::TensorRole::kGate, "gate", kWidth, kModel, kMlp<format::flag::kGated>),
    rows::vector(format::TensorRole::kGateBias, "gate.bias", kWidth,
                 kMlp<format::flag::kGated | format::flag::kFfnBias>),
    rows::matrix(format::TensorRole::kUp, "up", kWidth, kModel, kMlp<0>),
    rows::vector(format::TensorRole::kUpBias, "up.bias", kWidth, kMlp<format::flag::kFfnBias>),
    rows::vector(format::TensorRole::kFfnInnerNorm, "ffn_inner_norm", kWidth,
                 kMlp<format::flag::kFfnInnerNorm>),
    rows::matrix(format::TensorRole::kDown, "down", kModel, kWidth, kMlp<0>),
    rows::vector(format::TensorRole::kDownBias, "down.bias", kModel, kMlp<format::flag::kFfnBias>),
};

inline constexpr uint32_t kFlags =
    format::flag::kFfnBias | format::flag::kFfnInnerNorm | format::flag::kGated;

// Of all rows of a step.
struct Scratch {
  float* gate;  // [rows][d_ff]; not without kGated
  float* up;    // [rows][d_ff]
};

inline Scratch lay_out(const ModelScalars& /*m*/, const LayerKind& k, const StepShape& shape,
                       Carver* carver) {
  const uint64_t n = uint64_t{shape.n_rows} * k.d_ff;
  Scratch s = {};
  s.gate = carver->take<float>((k.flags & format::flag::kGated) != 0 ? n : 0);
  s.up = carver->take<float>(n);
  return s;
}

}  // namespace cria::dense

namespace cria::experts {

using namespace extents;

inline constexpr Size kWidth = kField<&LayerKind::expert_ff>;
inline constexpr Size kExperts = kField<&LayerKind::n_experts>;
inline constexpr Size kAllWidths = [](const ModelScalars&, const LayerKind& k) -> uint32_t {
  return k.n_experts * k.expert_ff;
};
inline constexpr Size kAllOutputs = [](const ModelScalars& m, const LayerKind& k) -> uint32_t {
  return k.n_experts * m.d_model;
};
inline constexpr Size kGatedExperts = [](const ModelScalars&, const LayerKind& k) -> uint32_t {
  return (k.flags & format::flag::kGated) != 0 ? k.n_experts : 0;
};

inline constexpr TensorRow kRowsBeforeMlp[] = {
    rows::vector(format::TensorRole::kRouterNorm, "router_norm", kModel,
                 kWith<format::flag::kRouterNorm>),
    rows::float_matrix(format::TensorRole::kRouter, "router", kExperts, kModel),
    rows::vector(format::TensorRole::kRouterBias, "router.bias", kExperts,
                 kWith<format::flag::kRouterBias>),
    rows::vector(format::TensorRole::kChoiceBias, "choice_bias", kExperts,
                 kWith<format::flag::kChoiceBias>),
    rows::vector(format::TensorRole::kExpertScale, "expert_scale", kExperts,
                 kWith<format::flag::kExpertScale>),
    rows::vector(format::TensorRole::kExpertNorm, "expert_norm", kNorm,
                 kWith<format::flag::kBranchNorms>),
    rows::matrix(format::TensorRole::kExpertGate, "expert_gate", kWidth, kModel, kGatedExperts),
    rows::vector(format::TensorRole::kExpertGateBias, "expert_gate.bias", kAllWidths,
                 kWith<format::flag::kGated | format::flag::kFfnBias>),
    rows::matrix(format::TensorRole::kExpertUp, "expert_up", kWidth, kModel, kExperts),
    rows::vector(format::TensorRole::kExpertUpBias, "expert_up.bias", kAllWidths,
                 kWith<format::flag::kFfnBias>),
    rows::matrix(format::TensorRole::kExpertDown, "expert_down", kModel, kWidth, kExperts),
    rows::vector(format::TensorRole::kExpertDownBias, "expert_down.bias", kAllOutputs,
                 kWith<format::flag::kFfnBias>),
    rows::vector(format::TensorRole::kExpertOutNorm, "expert_out_norm", kNorm,
                 kWith<format::flag::kBranchNorms>),
    rows::vector(format::TensorRole::kSharedGate, "shared_gate", kModel,
                 kWith<format::flag::kSharedGate>),
};
inline constexpr TensorRow kRowBehindMlp =
    rows::vector(format::TensorRole::kSharedOutNorm, "shared_out_norm", kNorm,
                 kWith<format::flag::kBranchNorms>);

// The MLP beside the experts has dense's rows.
inline constexpr auto kRows = [] {
  std::array<TensorRow, std::size(kRowsBeforeMlp) + std::size(dense::kRows) + 1> all = {};
  size_t n = 0;
  for (const TensorRow& row : kRowsBeforeMlp) all[n++] = row;
  for (const TensorRow& row : dense::kRows) all[n++] = row;
  all[n] = kRowBehindMlp;
  return all;
}();

inline constexpr uint32_t kFlags =
    format::flag::kFfnBias | format::flag::kGated | format::flag::kRouterBias |
    format::flag::kChoiceBias | format::flag::kRouterNorm | format::flag::kNormalizedChoice |
    format::flag::kExpertScale | format::flag::kSharedGate | format::flag::kBranchNorms;

// The field that does not go with the others, or null.
[[nodiscard]] constexpr const char* check(const LayerKind& k) {
  if (k.n_chosen > k.n_experts) return "n_chosen";
  if (uint64_t{k.n_experts} * k.expert_ff > format::kMaxExpertRows) return "n_experts";
  constexpr uint32_t kOfMlp = format::flag::kSharedGate | format::flag::kBranchNorms;
  if (k.d_ff == 0 && (k.flags & kOfMlp) != 0) return "flags";
  if (k.n_groups == 0) {
    if (k.n_groups_chosen != 0) return "n_groups_chosen";
    return k.group_rank != 0 ? "group_rank" : nullptr;
  }
  if (k.n_experts % k.n_groups != 0) return "n_groups";
  const uint32_t in_group = k.n_experts / k.n_groups;
  if (k.n_groups_chosen > k.n_groups || k.n_groups_chosen * in_group < k.n_chosen) {
    return "n_groups_chosen";
  }
  return k.group_rank == 0 || k.group_rank > in_group ? "group_rank" : nullptr;
}

}  // namespace cria::experts
