#include "tests/support/matrix_formats.h"

#include <cstring>
#include <iterator>

#include "quant/align.h"
#include "quant/tensor_roles.h"

namespace cria::test {
namespace {

uint16_t wanted_count(const TensorRoleRow& row, const format::ModelConfig& c) {
  if (!is_there(row, c)) return 0;
  return static_cast<uint16_t>(row.place == TensorPlace::kInLayers ? c.n_layers : 1);
}

// The first format with a count, or std::size(kMatrixFormats).
size_t first_place(const uint16_t (&counts)[format::kMatrixFormatPlaces]) {
  size_t place = 0;
  while (place < std::size(kMatrixFormats) && counts[place] == 0) ++place;
  return place;
}

}  // namespace

void set_all_formats(format::ModelConfig* c, MatrixFormat matrix_format) {
  std::memset(c->n_matrices, 0, sizeof c->n_matrices);
  for (const TensorRoleRow& row : kTensorRoles) {
    if (row.matrix == kNoMatrix) continue;
    c->n_matrices[row.matrix][place_of(matrix_format)] = wanted_count(row, *c);
  }
}

void mend_counts(format::ModelConfig* c) {
  size_t main = 0;
  for (const auto& counts : c->n_matrices) {
    main = first_place(counts);
    if (main < std::size(kMatrixFormats)) break;
  }
  if (main == std::size(kMatrixFormats)) main = 0;
  for (const TensorRoleRow& row : kTensorRoles) {
    if (row.matrix == kNoMatrix) continue;
    auto& counts = c->n_matrices[row.matrix];
    uint32_t sum = 0;
    for (const uint16_t n : counts) sum += n;
    if (sum == wanted_count(row, *c)) continue;
    const size_t place = first_place(counts);
    std::memset(counts, 0, sizeof counts);
    counts[place < std::size(kMatrixFormats) ? place : main] = wanted_count(row, *c);
  }
}

std::vector<MatrixFormat> formats_of(const format::ModelConfig& config) {
  format::MatrixCounts left;
  std::memcpy(left, config.n_matrices, sizeof left);
  std::vector<MatrixFormat> formats(tensor_count(config), kMatrixFormats[0]);
  for (uint32_t i = 0; i < formats.size(); ++i) {
    const TensorRoleRow& row = role_row(tensor_spec(config, i, formats[i]).role);
    if (row.matrix == kNoMatrix) continue;
    const size_t place = first_place(left[row.matrix]);
    if (place == std::size(kMatrixFormats)) continue;
    --left[row.matrix][place];
    formats[i] = kMatrixFormats[place];
  }
  return formats;
}

bool is_for_exact_alone(MatrixFormat f) {
  return f.number_format == format::NumberFormat::kInt4Nl ||
         f.number_format == format::NumberFormat::kInt8G32;
}

TensorSpec spec_at(const format::ModelConfig& config, uint32_t index) {
  return tensor_spec(config, index, formats_of(config)[index]);
}

uint64_t offset_of(const format::ModelConfig& config, uint32_t index) {
  const std::vector<MatrixFormat> formats = formats_of(config);
  uint64_t offset = 0;
  for (uint32_t i = 0; i < index; ++i) {
    offset += aligned(tensor_bytes(tensor_spec(config, i, formats[i])));
  }
  return offset;
}

}  // namespace cria::test
