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
    rows::matrix(format::TensorRole::kGate, kWidth, kModel, kMlp<format::flag::kGated>),
    rows::vector(format::TensorRole::kGateBias, kWidth,
                 kMlp<format::flag::kGated | format::flag::kFfnBias>),
    rows::matrix(format::TensorRole::kUp, kWidth, kModel, kMlp<0>),
    rows::vector(format::TensorRole::kUpBias, kWidth, kMlp<format::flag::kFfnBias>),
#if CRIA_WITH_VARIANTS
    rows::vector(format::TensorRole::kFfnInnerNorm, kWidth, kMlp<format::flag::kFfnInnerNorm>),
#endif
    rows::matrix(format::TensorRole::kDown, kModel, kWidth, kMlp<0>),
    rows::vector(format::TensorRole::kDownBias, kModel, kMlp<format::flag::kFfnBias>),
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
  Scratch s = {};
  const bool is_gated = (k.flags & format::flag::kGated) != 0;
  s.gate = carver->take<float>(is_gated ? shape.n_rows : 0, k.d_ff);
  s.up = carver->take<float>(shape.n_rows, k.d_ff);
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
    rows::vector(format::TensorRole::kRouterNorm, kModel, kWith<format::flag::kRouterNorm>),
    rows::float_matrix(format::TensorRole::kRouter, kExperts, kModel),
    rows::vector(format::TensorRole::kRouterBias, kExperts, kWith<format::flag::kRouterBias>),
    rows::vector(format::TensorRole::kChoiceBias, kExperts, kWith<format::flag::kChoiceBias>),
    rows::vector(format::TensorRole::kExpertScale, kExperts, kWith<format::flag::kExpertScale>),
    rows::vector(format::TensorRole::kExpertNorm, kNorm, kWith<format::flag::kBranchNorms>),
    rows::matrix(format::TensorRole::kExpertGate, kWidth, kModel, kGatedExperts),
    rows::vector(format::TensorRole::kExpertGateBias, kAllWidths,
                 kWith<format::flag::kGated | format::flag::kFfnBias>),
    rows::matrix(format::TensorRole::kExpertUp, kWidth, kModel, kExperts),
    rows::vector(format::TensorRole::kExpertUpBias, kAllWidths, kWith<format::flag::kFfnBias>),
    rows::matrix(format::TensorRole::kExpertDown, kModel, kWidth, kExperts),
    rows::vector(format::TensorRole::kExpertDownBias, kAllOutputs, kWith<format::flag::kFfnBias>),
    rows::vector(format::TensorRole::kExpertOutNorm, kNorm, kWith<format::flag::kBranchNorms>),
    rows::vector(format::TensorRole::kSharedGate, kModel, kWith<format::flag::kSharedGate>),
};
inline constexpr TensorRow kRowsBehindMlp[] = {
    rows::vector(format::TensorRole::kSharedOutNorm, kNorm, kWith<format::flag::kBranchNorms>),
};

// The MLP beside the experts has dense's rows.
inline constexpr auto kRows = rows::joined(kRowsBeforeMlp, dense::kRows, kRowsBehindMlp);

inline constexpr uint32_t kFlags =
    format::flag::kFfnBias | format::flag::kGated | format::flag::kRouterBias |
    format::flag::kChoiceBias | format::flag::kRouterNorm | format::flag::kNormalizedChoice |
    format::flag::kExpertScale | format::flag::kSharedGate | format::flag::kBranchNorms;

// Of all rows of a step. A slot is a row that one of its experts reads; the slots of an expert
// follow each other.
struct Scratch {
  float* scores;      // [rows][n_experts], then what is chosen by
  float* ranked;      // [rows][n_experts], the same with what only the choice counts
  uint32_t* chosen;   // [rows][n_chosen] experts, the first choice first
  float* weights;     // [rows][n_chosen]
  uint32_t* slots;    // [rows][n_chosen]
  uint32_t* n_slots;  // [n_experts]
  uint8_t* segments;  // [n_experts or slots] records
  float* stream;      // [rows][d_model], where router or experts have norms of their own
  float* rows;        // [slots][d_model], inputs of experts, then what they give
  uint8_t* hidden;    // of experts, then of the MLP beside them
};

// Inputs of down.
struct Hidden {
  float* gate;  // [slots][expert_ff]; not without kGated
  float* up;    // [slots][expert_ff]
};

inline constexpr uint32_t kSegmentBytes = 12;
inline constexpr uint32_t kOwnInputs = format::flag::kRouterNorm | format::flag::kBranchNorms;

[[nodiscard]] constexpr uint32_t slots_of(const LayerKind& k, uint32_t n_rows) {
  return n_rows * k.n_chosen;
}

inline Hidden lay_out_hidden(const LayerKind& k, const StepShape& shape, Carver* carver) {
  const uint32_t slots = slots_of(k, shape.n_rows);
  const bool is_gated = (k.flags & format::flag::kGated) != 0;
  Hidden h = {};
  h.gate = carver->take<float>(is_gated ? slots : 0, k.expert_ff);
  h.up = carver->take<float>(slots, k.expert_ff);
  return h;
}

inline Scratch lay_out(const ModelScalars& m, const LayerKind& k, const StepShape& shape,
                       Carver* carver) {
  const uint32_t rows = shape.n_rows;
  const uint32_t slots = slots_of(k, rows);
  Carver hidden;
  (void)lay_out_hidden(k, shape, &hidden);
  Carver beside;
  (void)dense::lay_out(m, k, shape, &beside);
  Scratch s = {};
  s.scores = carver->take<float>(rows, k.n_experts);
  s.ranked = carver->take<float>(rows, k.n_experts);
  s.chosen = carver->take<uint32_t>(rows, k.n_chosen);
  s.weights = carver->take<float>(rows, k.n_chosen);
  s.slots = carver->take<uint32_t>(rows, k.n_chosen);
  s.n_slots = carver->take<uint32_t>(k.n_experts, 1);
  s.segments = carver->take<uint8_t>(slots < k.n_experts ? slots : k.n_experts, kSegmentBytes);
  s.stream = carver->take<float>((k.flags & kOwnInputs) != 0 ? rows : 0, m.d_model);
  s.rows = carver->take<float>(slots, m.d_model);
  s.hidden =
      carver->take<uint8_t>(hidden.taken() > beside.taken() ? hidden.taken() : beside.taken());
  return s;
}

// The field that does not go with the others, or null.
[[nodiscard]] constexpr const char* check(const LayerKind& k) {
  if (k.n_chosen > k.n_experts) return "n_chosen"_reason;
  if (uint64_t{k.n_experts} * k.expert_ff > format::kMaxExpertRows) return "n_experts"_reason;
  constexpr uint32_t kOfMlp = format::flag::kSharedGate | format::flag::kBranchNorms;
  if (k.d_ff == 0 && (k.flags & kOfMlp) != 0) return "flags"_reason;
  if (k.n_groups == 0) {
    if (k.n_groups_chosen != 0) return "n_groups_chosen"_reason;
    return k.group_rank != 0 ? "group_rank"_reason : nullptr;
  }
  if (k.n_experts % k.n_groups != 0) return "n_groups"_reason;
  const uint32_t in_group = k.n_experts / k.n_groups;
  if (k.n_groups_chosen > k.n_groups || k.n_groups_chosen * in_group < k.n_chosen) {
    return "n_groups_chosen"_reason;
  }
  return k.group_rank == 0 || k.group_rank > in_group ? "group_rank"_reason : nullptr;
}

}  // namespace cria::experts
