#include "converter/calibration/row_rounding.h"

#include <algorithm>

#include "quant/numbers/float16.h"
#include "quant/numbers/group_search.h"
#include "quant/numbers/multiversion.h"

namespace cria::converter {
namespace {

constexpr size_t kLeastBlock = 64;
constexpr size_t kPartDepth = 512;  // columns whose products are summed at once

size_t round_up(size_t n, size_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// values [n][16] -= factor of a column * the column's row of a matrix, whose panels of 16 columns
// begin at rows: row i of panel p is rows[p * panel_stride + i * 16 ...].
CRIA_LANES_INLINE void take_from(const Lanes& factor, const float* rows, size_t panel_stride,
                                 size_t begin, size_t end, float* values) {
  for (size_t i = begin; i < end; ++i) {
    Lanes value;
    load(values + i * kLanes, &value);
    value -= factor * rows[i / kTile * panel_stride + i % kTile];
    store(value, values + i * kLanes);
  }
}

struct ColumnBlock {
  size_t n;             // columns
  const float* matrix;  // its row and column of the block's first, as panels
  size_t panel_stride;  // from one panel to the next
  float* changes;       // [n][16], of values, negative
};

// Columns of a block in order, each column's error taken over by those after it.
template <class Grid>
CRIA_LANES_INLINE void feed_columns(const ColumnBlock& block, const uint32_t* order,
                                    size_t group_size, const float* scales, float* weights,
                                    float* values) {
  for (size_t i = 0; i < block.n; ++i) {
    const size_t col = order[i];
    Lanes weight, scale, inverse, value;
    load(weights + i * kLanes, &weight);
    load(scales + col / group_size * kLanes, &scale);
    invert(scale, &inverse);
    Grid::nearest(weight, inverse, &value);
    store(value, values + col * kLanes);
    const float* const row = block.matrix + i * kTile;
    const Lanes error = (weight - value * scale) / row[i / kTile * block.panel_stride + i % kTile];
    store(-error, block.changes + i * kLanes);
    take_from(error, row, block.panel_stride, i + 1, block.n, weights);
  }
}

// The scale that is best given all codes and the other scales; where it is better it is taken.
CRIA_LANES_INLINE void fit_scale(const ColumnBlock& block, size_t begin, size_t end,
                                 const float* values, float* scale_of_group, float* gradient) {
  Lanes slope = {};      // values * gradient
  Lanes curvature = {};  // values * H * values
  for (size_t i = begin; i < end; ++i) {
    const float* const row = block.matrix + i * kTile;
    Lanes value, change;
    load(values + i * kLanes, &value);
    load(gradient + i * kLanes, &change);
    slope += value * change;
    Lanes sum = {};
    for (size_t j = begin; j < end; ++j) {
      Lanes other;
      load(values + j * kLanes, &other);
      sum += other * row[j / kTile * block.panel_stride + j % kTile];
    }
    curvature += value * sum;
  }
  Lanes scale;
  load(scale_of_group, &scale);
  Lanes fitted = scale + slope / (curvature > 0.0f ? curvature : 1.0f - Lanes{});
  round_to_bf16(&fitted);
  LaneInts usable;
  find_usable(fitted, &usable);
  const Lanes change = fitted - scale;
  const LaneInts better = (change * (2.0f * slope - change * curvature) > 0.0f) &
                          (curvature > 0.0f) & (fitted * scale > 0.0f) & usable;
  const Lanes taken = better ? change : Lanes{};
  store(better ? fitted : scale, scale_of_group);
  for (size_t i = begin; i < end; ++i) {
    Lanes value, sum;
    load(values + i * kLanes, &value);
    const Lanes delta = taken * value;
    load(block.changes + i * kLanes, &sum);
    store(sum - delta, block.changes + i * kLanes);
    take_from(delta, block.matrix + i * kTile, block.panel_stride, 0, block.n, gradient);
  }
}

// The code that is best given all others.
template <class Grid>
CRIA_LANES_INLINE void improve_code(const ColumnBlock& block, size_t i, float importance,
                                    const Lanes& scale, const Lanes& inverse, float* values,
                                    float* gradient) {
  Lanes value, slope, better;
  load(values + i * kLanes, &value);
  load(gradient + i * kLanes, &slope);
  Grid::nearest(value * scale + slope / importance, inverse, &better);
  const Lanes delta = (better - value) * scale;
  const LaneInts is_changed = delta != 0.0f;
  bool any = false;
  for (size_t lane = 0; lane < kLanes; ++lane) any |= is_changed[lane] != 0;
  if (!any) return;
  Lanes sum;
  load(block.changes + i * kLanes, &sum);
  store(sum - delta, block.changes + i * kLanes);
  store(better, values + i * kLanes);
  take_from(delta, block.matrix + i * kTile, block.panel_stride, 0, block.n, gradient);
}

template <class Grid>
CRIA_LANES_INLINE void sweep_columns(const ColumnBlock& block, size_t group_size,
                                     const float* importance, bool improves_codes, float* values,
                                     float* scales, float* gradient) {
  for (size_t begin = 0; begin < block.n; begin += group_size) {
    const size_t end = begin + group_size < block.n ? begin + group_size : block.n;
    float* const scale_of_group = scales + begin / group_size * kLanes;
    fit_scale(block, begin, end, values, scale_of_group, gradient);
    if (!improves_codes) continue;
    Lanes scale, inverse;
    load(scale_of_group, &scale);
    invert(scale, &inverse);
    for (size_t i = begin; i < end; ++i) {
      improve_code<Grid>(block, i, importance[i], scale, inverse, values, gradient);
    }
  }
}

CRIA_MULTIVERSION void feed_block(bool is_nl, const ColumnBlock& block, const uint32_t* order,
                                  size_t group_size, const float* scales, float* weights,
                                  float* values) {
  if (is_nl) {
    feed_columns<NlGrid>(block, order, group_size, scales, weights, values);
  } else {
    feed_columns<EvenGrid>(block, order, group_size, scales, weights, values);
  }
}

CRIA_MULTIVERSION void sweep_block(bool is_nl, const ColumnBlock& block, size_t group_size,
                                   const float* importance, bool improves_codes, float* values,
                                   float* scales, float* gradient) {
  if (is_nl) {
    sweep_columns<NlGrid>(block, group_size, importance, improves_codes, values, scales, gradient);
  } else {
    sweep_columns<EvenGrid>(block, group_size, importance, improves_codes, values, scales,
                            gradient);
  }
}

CRIA_MULTIVERSION void find_group_scale(bool is_nl, const float* weights, size_t group_size,
                                        const float* importance, ScaleSigns signs, float* scale) {
  Lanes found;
  if (is_nl) {
    const GroupSearch<NlGrid, ByColumn> search(weights, group_size, {importance});
    search.find_scales(QuantMethod::kMse, signs, &found);
  } else {
    const GroupSearch<EvenGrid, ByColumn> search(weights, group_size, {importance});
    search.find_scales(QuantMethod::kMse, signs, &found);
  }
  store(found, scale);
}

// Values of n columns with one scale.
CRIA_MULTIVERSION void take_nearest(bool is_nl, const float* weights, size_t n, const float* scale,
                                    float* values) {
  Lanes scales, inverse;
  load(scale, &scales);
  invert(scales, &inverse);
  for (size_t i = 0; i < n; ++i) {
    Lanes weight, value;
    load(weights + i * kLanes, &weight);
    if (is_nl) {
      NlGrid::nearest(weight, inverse, &value);
    } else {
      EvenGrid::nearest(weight, inverse, &value);
    }
    store(value, values + i * kLanes);
  }
}

}  // namespace

RowRounding::RowRounding(const RoundingBasis& basis, const MatrixShape& shape, ScaleSigns signs)
    : basis_(basis),
      shape_(shape),
      signs_(signs),
      cols_(shape.cols),
      block_(std::max<size_t>(kLeastBlock, shape.group_size)) {
  constexpr size_t kParts = kMostRows / kLanes;
  padded_ = round_up(cols_, block_);
  importance_.resize(padded_);
  for (size_t i = 0; i < cols_; ++i) importance_[i] = basis.hessian.at(i, i);
  targets_.resize(kParts * part_stride());
  working_.resize(kParts * part_stride());
  values_.resize(kParts * part_stride());
  scales_.resize(kParts * padded_ / shape.group_size * kLanes);
  changes_.resize(kParts * block_ * kLanes);
}

void RowRounding::run(const float* targets, size_t n_rows, const RoundingSteps& steps) {
  n_parts_ = (n_rows + kLanes - 1) / kLanes;
  std::fill(targets_.begin(), targets_.end(), 0.0f);
  std::fill(values_.begin(), values_.end(), 0.0f);
  for (size_t r = 0; r < n_rows; ++r) {
    float* const to = targets_.data() + r / kLanes * part_stride() + r % kLanes;
    for (size_t i = 0; i < cols_; ++i) to[i * kLanes] = targets[r * cols_ + i];
  }
  find_scales();
  if (steps.feedback) {
    round_with_feedback();
  } else {
    round_to_nearest();
  }
  if (steps.n_sweeps == 0) return;
  find_gradient();
  for (uint32_t i = 0; i < steps.n_sweeps; ++i) sweep(true);
  sweep(false);
}

void RowRounding::take(size_t r, int8_t* codes, uint16_t* scales) const {
  const bool is_nl = shape_.number_format == format::NumberFormat::kInt4Nl;
  const size_t padded = padded_cols(shape_);
  const size_t part = r / kLanes;
  const float* const values = values_.data() + part * part_stride() + r % kLanes;
  for (size_t i = 0; i < padded; ++i) {
    const auto value = static_cast<int>(values[i * kLanes]);
    int code = value;
    if (is_nl) {
      const auto* const found =
          std::find(std::begin(kInt4NlValues), std::end(kInt4NlValues), value);
      code = static_cast<int>(found - std::begin(kInt4NlValues)) - kNibbleZero;
    }
    codes[i] = static_cast<int8_t>(code);
  }
  const size_t n_groups = padded_ / shape_.group_size;
  for (size_t g = 0; g < padded / shape_.group_size; ++g) {
    scales[g] = f32_to_bf16(scales_[(part * n_groups + g) * kLanes + r % kLanes]);
  }
}

void RowRounding::find_scales() {
  const bool is_nl = shape_.number_format == format::NumberFormat::kInt4Nl;
  const size_t group_size = shape_.group_size;
  const size_t n_groups = padded_ / group_size;
  for (size_t part = 0; part < n_parts_; ++part) {
    for (size_t g = 0; g < n_groups; ++g) {
      find_group_scale(is_nl, targets_.data() + part * part_stride() + g * group_size * kLanes,
                       group_size, importance_.data() + g * group_size, signs_,
                       scales_.data() + (part * n_groups + g) * kLanes);
    }
  }
}

void RowRounding::round_to_nearest() {
  const bool is_nl = shape_.number_format == format::NumberFormat::kInt4Nl;
  const size_t group_size = shape_.group_size;
  const size_t n_groups = padded_ / group_size;
  for (size_t part = 0; part < n_parts_; ++part) {
    for (size_t g = 0; g < n_groups; ++g) {
      const size_t at = part * part_stride() + g * group_size * kLanes;
      take_nearest(is_nl, targets_.data() + at, group_size,
                   scales_.data() + (part * n_groups + g) * kLanes, values_.data() + at);
    }
  }
}

void RowRounding::spread(const PanelMatrix& matrix, size_t first, size_t n, size_t first_panel,
                         float* sums) {
  const size_t block_panel = first / kTile;
  const size_t block_end = block_panel + block_ / kTile;
  for (size_t panel = first_panel; panel < matrix.n_panels(); ++panel) {
    if (panel >= block_panel && panel < block_end) continue;
    for (size_t part = 0; part < n_parts_; ++part) {
      tile_products().floats(matrix.floats(panel) + first * kTile, kTile, kTile,
                             changes_.data() + part * block_ * kLanes, n,
                             sums + part * part_stride() + panel * kTile * kLanes, kLanes);
    }
  }
}

void RowRounding::round_with_feedback() {
  const bool is_nl = shape_.number_format == format::NumberFormat::kInt4Nl;
  const PanelMatrix& factor = basis_.turned_factor;
  const size_t panel_stride = cols_ * kTile;
  const size_t scale_stride = padded_ / shape_.group_size * kLanes;
  for (size_t part = 0; part < n_parts_; ++part) {
    float* const to = working_.data() + part * part_stride();
    const float* const from = targets_.data() + part * part_stride();
    for (size_t i = 0; i < cols_; ++i) {
      std::copy_n(from + basis_.order[i] * kLanes, kLanes, to + i * kLanes);
    }
  }
  for (size_t first = 0; first < cols_; first += block_) {
    const size_t n = std::min(block_, cols_ - first);
    for (size_t part = 0; part < n_parts_; ++part) {
      const ColumnBlock block = {n, factor.floats(first / kTile) + first * kTile, panel_stride,
                                 changes_.data() + part * block_ * kLanes};
      feed_block(is_nl, block, basis_.order.data() + first, shape_.group_size,
                 scales_.data() + part * scale_stride,
                 working_.data() + part * part_stride() + first * kLanes,
                 values_.data() + part * part_stride());
    }
    spread(factor, first, n, first / kTile, working_.data());
  }
}

// (targets - what codes stand for) * H.
void RowRounding::find_gradient() {
  const size_t group_size = shape_.group_size;
  const size_t n_groups = padded_ / group_size;
  std::fill(working_.begin(), working_.end(), 0.0f);
  std::vector<float> difference(n_parts_ * kPartDepth * kLanes);
  for (size_t first = 0; first < cols_; first += kPartDepth) {
    const size_t n = std::min(kPartDepth, cols_ - first);
    for (size_t part = 0; part < n_parts_; ++part) {
      for (size_t i = 0; i < n; ++i) {
        const size_t at = part * part_stride() + (first + i) * kLanes;
        const float* const scale =
            scales_.data() + (part * n_groups + (first + i) / group_size) * kLanes;
        float* const to = difference.data() + (part * kPartDepth + i) * kLanes;
        for (size_t lane = 0; lane < kLanes; ++lane) {
          to[lane] = targets_[at + lane] - values_[at + lane] * scale[lane];
        }
      }
    }
    for (size_t panel = 0; panel < basis_.hessian.n_panels(); ++panel) {
      for (size_t part = 0; part < n_parts_; ++part) {
        tile_products().floats(basis_.hessian.floats(panel) + first * kTile, kTile, kTile,
                               difference.data() + part * kPartDepth * kLanes, n,
                               working_.data() + part * part_stride() + panel * kTile * kLanes,
                               kLanes);
      }
    }
  }
}

void RowRounding::sweep(bool improves_codes) {
  const bool is_nl = shape_.number_format == format::NumberFormat::kInt4Nl;
  const size_t group_size = shape_.group_size;
  const size_t n_groups = padded_ / group_size;
  for (size_t first = 0; first < cols_; first += block_) {
    const size_t n = std::min(block_, cols_ - first);
    std::fill(changes_.begin(), changes_.end(), 0.0f);
    for (size_t part = 0; part < n_parts_; ++part) {
      const ColumnBlock block = {n, basis_.hessian.floats(first / kTile) + first * kTile,
                                 cols_ * kTile, changes_.data() + part * block_ * kLanes};
      const size_t at = part * part_stride() + first * kLanes;
      sweep_block(
          is_nl, block, group_size, importance_.data() + first, improves_codes, values_.data() + at,
          scales_.data() + (part * n_groups + first / group_size) * kLanes, working_.data() + at);
    }
    // The last sweep does not change scales that it has set.
    spread(basis_.hessian, first, n, improves_codes ? 0 : first / kTile, working_.data());
  }
}

}  // namespace cria::converter
