#include "runtime/backends/xnnpack/xnnpack_operator.h"

#include <limits>

#include "quant/float16.h"
#include "runtime/base/assert.h"

namespace cria::xnnpack {
namespace {

using format::NumberFormat;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint8_t kInt4ZeroPoint = 8;
// Large enough for XNNPACK's operator object (2032 bytes on x86-64).
constexpr size_t kMostObjectBytes = 4096;
// The object and the packed weights.
constexpr uint32_t kAllocationsOfAnOperator = 2;

struct UnitScales {
  uint16_t bf16[kMostSliceScales];
};

constexpr UnitScales make_unit_scales() {
  UnitScales scales = {};
  for (uint16_t& scale : scales.bf16) scale = f32_to_bf16(1.0f);
  return scales;
}

constexpr UnitScales kUnitScales = make_unit_scales();

xnn_status create(const MatrixShape& shape, uint32_t n_rows, const SliceSource& source,
                  xnn_operator_t* created) {
  const size_t cols = padded_cols(shape);
  switch (shape.number_format) {
    case NumberFormat::kInt4:
      return xnn_create_fully_connected_nc_qd8_f32_qb4w(
          cols, n_rows, cols, shape.rows, shape.group_size, kInt4ZeroPoint,
          static_cast<const uint16_t*>(source.scales), source.codes, nullptr, -kInfinity, kInfinity,
          0, nullptr, nullptr, created);
    case NumberFormat::kInt8:
      return xnn_create_fully_connected_nc_qd8_f32_qc8w(
          cols, n_rows, cols, shape.rows, static_cast<const float*>(source.scales),
          static_cast<const int8_t*>(source.codes), nullptr, -kInfinity, kInfinity, 0, nullptr,
          nullptr, created);
    default:
      return xnn_create_fully_connected_nc_f32(cols, n_rows, cols, shape.rows,
                                               static_cast<const float*>(source.codes), nullptr,
                                               -kInfinity, kInfinity, 0, nullptr, nullptr, created);
  }
}

}  // namespace

size_t source_row_bytes(const MatrixShape& shape) {
  const size_t cols = padded_cols(shape);
  switch (shape.number_format) {
    case NumberFormat::kInt4:
      return cols / 2;
    case NumberFormat::kInt8:
      return cols;
    default:
      return cols * sizeof(float);
  }
}

Status measure_operator(const MatrixShape& shape, uint32_t n_rows, uint64_t* n_bytes) {
  if (shape.number_format == NumberFormat::kInt4 &&
      padded_cols(shape) / shape.group_size * n_rows > kMostSliceScales) {
    return Status::kUnsupported;
  }
  alignas(format::kAlignment) uint8_t object[kMostObjectBytes];
  Region region = {
      .base = object, .capacity = sizeof object, .n_allowed = 1, .used = 0, .n_asked = 0};
  const RegionScope scope(&region);
  xnn_operator_t created = nullptr;
  // The weights are not read: there is nowhere to pack them to.
  const SliceSource source = {.codes = kUnitScales.bf16, .scales = kUnitScales.bf16};
  const xnn_status status = create(shape, n_rows, source, &created);
  if (status != xnn_status_out_of_memory || region.n_asked != kAllocationsOfAnOperator) {
    return Status::kUnsupported;
  }
  *n_bytes = region.used;
  return Status::kOk;
}

Status create_operator(const MatrixShape& shape, uint32_t n_rows, const SliceSource& source,
                       Region* region, xnn_operator_t* created) {
  region->n_allowed = region->n_asked + kAllocationsOfAnOperator;
  const RegionScope scope(region);
  return create(shape, n_rows, source, created) == xnn_status_success ? Status::kOk
                                                                      : Status::kBackendFailed;
}

Status reshape_operator(const MatrixShape& shape, xnn_operator_t op, size_t n_rows) {
  xnn_status status;
  switch (shape.number_format) {
    case NumberFormat::kInt4:
      status = xnn_reshape_fully_connected_nc_qd8_f32_qb4w(op, n_rows, nullptr);
      break;
    case NumberFormat::kInt8:
      status = xnn_reshape_fully_connected_nc_qd8_f32_qc8w(op, n_rows, nullptr);
      break;
    default:
      status = xnn_reshape_fully_connected_nc_f32(op, n_rows, nullptr);
      break;
  }
  return status == xnn_status_success ? Status::kOk : Status::kBackendFailed;
}

Status run_operator(const MatrixShape& shape, xnn_operator_t op, const OperatorInput& input,
                    float* y) {
  xnn_status status;
  switch (shape.number_format) {
    case NumberFormat::kInt4:
      status = xnn_setup_fully_connected_nc_qd8_f32_qb4w(op, input.codes, y, input.params);
      break;
    case NumberFormat::kInt8:
      status = xnn_setup_fully_connected_nc_qd8_f32_qc8w(op, input.codes, y, input.params);
      break;
    default:
      status = xnn_setup_fully_connected_nc_f32(op, input.x, y);
      break;
  }
  if (status == xnn_status_success) status = xnn_run_operator(op, nullptr);
  return status == xnn_status_success ? Status::kOk : Status::kBackendFailed;
}

}  // namespace cria::xnnpack
