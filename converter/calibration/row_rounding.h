// Sixteen rows on their way from weights to codes, a lane for each: column by column, all of them
// at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "converter/calibration/gptq_rounding.h"
#include "quant/numbers/lanes.h"

namespace cria::converter {

// Several times sixteen rows, that share what is read of the basis.
class RowRounding {
 public:
  static constexpr size_t kMostRows = 64;

  RowRounding(const RoundingBasis& basis, const MatrixShape& shape, ScaleSigns signs);

  // targets [n_rows][cols], at most kMostRows.
  void run(const float* targets, size_t n_rows, const RoundingSteps& steps);
  // Of row r: codes [padded], scales [padded / group_size].
  void take(size_t r, int8_t* codes, uint16_t* scales) const;

 private:
  static_assert(kTile == kLanes);

  void find_scales();
  void round_to_nearest();
  void round_with_feedback();
  void find_gradient();
  void sweep(bool improves_codes);
  // What a block of columns has changed, taken from the gradient of the columns of other panels.
  void spread(const PanelMatrix& matrix, size_t first, size_t n, size_t first_panel, float* sums);

  // Of 16 rows: [columns][16].
  [[nodiscard]] size_t part_stride() const { return padded_ * kLanes; }

  const RoundingBasis& basis_;
  MatrixShape shape_;
  ScaleSigns signs_;
  size_t cols_;
  size_t padded_;  // a multiple of groups, blocks and panels
  size_t block_;   // columns between two updates of all others
  size_t n_parts_ = 0;
  std::vector<float> importance_;  // the diagonal, [padded_]
  // [parts][padded_][16]; scales_ a column for each group.
  std::vector<float> targets_;
  std::vector<float> working_;  // weights in the basis' order, then the gradient
  std::vector<float> values_;   // that codes stand for, by scales
  std::vector<float> scales_;
  std::vector<float> changes_;  // [parts][block_][16], negative
};

}  // namespace cria::converter
