#include "runtime/backends/xnnpack/xnnpack_operator.h"

#include <limits>

#include "quant/numbers/float16.h"

namespace cria::xnnpack {
namespace {

using format::NumberFormat;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint8_t kInt4ZeroPoint = 8;

struct UnitScales {
  uint16_t bf16[kMostSliceScales];
};

constexpr UnitScales make_unit_scales() {
  UnitScales scales = {};
  for (uint16_t& scale : scales.bf16) scale = f32_to_bf16(1.0f);
  return scales;
}

constexpr UnitScales kUnitScales = make_unit_scales();

// What a cache answers ---------------------------------------------------------------------------

// Offsets are addresses.
void* address_of(void* /*context*/, size_t offset) { return reinterpret_cast<void*>(offset); }
// XNNPACK runs operators of complete caches only.
bool is_complete(void* /*context*/) { return true; }
xnn_status keep_cache(void* /*context*/) { return xnn_status_success; }

size_t find_nothing(void* /*context*/, const xnn_weights_cache_look_up_key* /*key*/) {
  return SIZE_MAX;
}
void* reserve_in_region(void* context, size_t n_bytes) {
  return take(static_cast<Region*>(context), n_bytes);
}
size_t keep_packed(void* /*context*/, const xnn_weights_cache_look_up_key* /*key*/, void* packed,
                   size_t /*n_bytes*/) {
  return reinterpret_cast<size_t>(packed);
}

// The packed weights stand for those they were packed from.
size_t find_packed(void* /*context*/, const xnn_weights_cache_look_up_key* key) {
  return reinterpret_cast<size_t>(key->kernel);
}
void* reserve_nothing(void* /*context*/, size_t /*n_bytes*/) { return nullptr; }

// Never written: XNNPACK takes pointers to it that are not to const.
constinit xnn_weights_cache_provider packed_cache = {.context = nullptr,
                                                     .look_up = find_packed,
                                                     .reserve_space = reserve_nothing,
                                                     .look_up_or_insert = keep_packed,
                                                     .is_finalized = is_complete,
                                                     .offset_to_addr = address_of,
                                                     .delete_cache = keep_cache};

xnn_weights_cache_provider packing_cache(Region* region) {
  return {.context = region,
          .look_up = find_nothing,
          .reserve_space = reserve_in_region,
          .look_up_or_insert = keep_packed,
          .is_finalized = is_complete,
          .offset_to_addr = address_of,
          .delete_cache = keep_cache};
}

xnn_status create(const MatrixShape& shape, uint32_t n_rows, const SliceSource& source,
                  xnn_weights_cache_provider* cache, xnn_operator_t* created) {
  const size_t cols = padded_cols(shape);
  switch (shape.number_format) {
    case NumberFormat::kInt4:
      return xnn_create_fully_connected_nc_qd8_f32_qb4w(
          cols, n_rows, cols, shape.rows, shape.group_size, kInt4ZeroPoint,
          static_cast<const uint16_t*>(source.scales), source.codes, nullptr, -kInfinity, kInfinity,
          0, nullptr, cache, created);
    case NumberFormat::kInt8:
      return xnn_create_fully_connected_nc_qd8_f32_qc8w(
          cols, n_rows, cols, shape.rows, static_cast<const float*>(source.scales),
          static_cast<const int8_t*>(source.codes), nullptr, -kInfinity, kInfinity, 0, nullptr,
          cache, created);
    case NumberFormat::kInt4Nl:
    case NumberFormat::kInt8G32:
    case NumberFormat::kBit1:
    case NumberFormat::kBit2:
      return xnn_status_unsupported_parameter;
    case NumberFormat::kF32:
    case NumberFormat::kF16:
    case NumberFormat::kBf16:
      return xnn_create_fully_connected_nc_f32(cols, n_rows, cols, shape.rows,
                                               static_cast<const float*>(source.codes), nullptr,
                                               -kInfinity, kInfinity, 0, nullptr, cache, created);
  }
  return xnn_status_invalid_parameter;
}

}  // namespace

size_t source_row_bytes(const MatrixShape& shape) {
  const size_t cols = padded_cols(shape);
  switch (shape.number_format) {
    case NumberFormat::kInt4:
    case NumberFormat::kInt4Nl:
      return cols / 2;
    case NumberFormat::kInt8:
    case NumberFormat::kInt8G32:
      return cols;
    case NumberFormat::kBit1:
      return cols / 8;
    case NumberFormat::kBit2:
      return cols / 4;
    case NumberFormat::kF32:
    case NumberFormat::kF16:
    case NumberFormat::kBf16:
      return cols * sizeof(float);
  }
  return 0;
}

Status measure_slice(const MatrixShape& shape, uint32_t n_rows, SliceBytes* n_bytes) {
  // XNNPACK has no such codes, and int8 only with scales of rows.
  if (!is_for_xnnpack(shape.number_format)) return Status::kUnsupported;
  if (shape.number_format == NumberFormat::kInt4 &&
      padded_cols(shape) / shape.group_size * n_rows > kMostSliceScales) {
    return Status::kUnsupported;
  }
  alignas(format::kAlignment) uint8_t object[kMostObjectBytes];
  Region objects = {
      .base = object, .capacity = sizeof object, .n_allowed = 1, .used = 0, .n_asked = 0};
  Region nothing = {.base = object, .capacity = 0, .n_allowed = 0, .used = 0, .n_asked = 0};
  const RegionScope scope(&objects);
  xnn_weights_cache_provider cache = packing_cache(&nothing);
  xnn_operator_t created = nullptr;
  // The weights are not read: there is nowhere to pack them to.
  const SliceSource source = {.codes = kUnitScales.bf16, .scales = kUnitScales.bf16};
  const xnn_status status = create(shape, n_rows, source, &cache, &created);
  if (status != xnn_status_out_of_memory || objects.n_asked != 1 || nothing.n_asked != 1) {
    return Status::kUnsupported;
  }
  *n_bytes = {nothing.used, objects.used};
  return Status::kOk;
}

Status pack_slice(const MatrixShape& shape, uint32_t n_rows, const SliceSource& source,
                  uint8_t* object, Region* region, const void** packed) {
  Region objects = {
      .base = object, .capacity = kMostObjectBytes, .n_allowed = 1, .used = 0, .n_asked = 0};
  const RegionScope scope(&objects);
  region->n_allowed = region->n_asked + 1;
  *packed = region->base + region->used;
  xnn_weights_cache_provider cache = packing_cache(region);
  xnn_operator_t created = nullptr;
  return create(shape, n_rows, source, &cache, &created) == xnn_status_success
             ? Status::kOk
             : Status::kBackendFailed;
}

Status create_operator(const MatrixShape& shape, uint32_t n_rows, const void* packed,
                       Region* region, xnn_operator_t* created) {
  region->n_allowed = region->n_asked + 1;
  const RegionScope scope(region);
  // Scales were packed: XNNPACK only looks whether there are valid ones.
  const SliceSource source = {.codes = packed, .scales = kUnitScales.bf16};
  return create(shape, n_rows, source, &packed_cache, created) == xnn_status_success
             ? Status::kOk
             : Status::kBackendFailed;
}

Status reshape_operator(const MatrixShape& shape, xnn_operator_t op, size_t n_rows) {
  xnn_status status = xnn_status_invalid_parameter;
  switch (shape.number_format) {
    case NumberFormat::kInt4:
      status = xnn_reshape_fully_connected_nc_qd8_f32_qb4w(op, n_rows, nullptr);
      break;
    case NumberFormat::kInt8:
      status = xnn_reshape_fully_connected_nc_qd8_f32_qc8w(op, n_rows, nullptr);
      break;
    case NumberFormat::kInt4Nl:
    case NumberFormat::kInt8G32:
    case NumberFormat::kBit1:
    case NumberFormat::kBit2:
      break;
    case NumberFormat::kF32:
    case NumberFormat::kF16:
    case NumberFormat::kBf16:
      status = xnn_reshape_fully_connected_nc_f32(op, n_rows, nullptr);
      break;
  }
  return status == xnn_status_success ? Status::kOk : Status::kBackendFailed;
}

Status run_operator(const MatrixShape& shape, xnn_operator_t op, const OperatorInput& input,
                    float* y) {
  xnn_status status = xnn_status_invalid_parameter;
  switch (shape.number_format) {
    case NumberFormat::kInt4:
      status = xnn_setup_fully_connected_nc_qd8_f32_qb4w(op, input.codes, y, input.params);
      break;
    case NumberFormat::kInt8:
      status = xnn_setup_fully_connected_nc_qd8_f32_qc8w(op, input.codes, y, input.params);
      break;
    case NumberFormat::kInt4Nl:
    case NumberFormat::kInt8G32:
    case NumberFormat::kBit1:
    case NumberFormat::kBit2:
      break;
    case NumberFormat::kF32:
    case NumberFormat::kF16:
    case NumberFormat::kBf16:
      status = xnn_setup_fully_connected_nc_f32(op, input.x, y);
      break;
  }
  if (status == xnn_status_success) status = xnn_run_operator(op, nullptr);
  return status == xnn_status_success ? Status::kOk : Status::kBackendFailed;
}

}  // namespace cria::xnnpack
