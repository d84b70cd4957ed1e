// Cases of the integer matrix products.
#include <algorithm>
#include <cstring>

#include "quant/numbers/float16.h"
#include "quant/numbers/tile16.h"
#include "tests/firmware/kernel_trial.h"

namespace cria::firmware_test {
namespace {

using format::NumberFormat;

constexpr MatrixFormat kFormats[] = {
    {NumberFormat::kInt8, 0},     {NumberFormat::kInt4, 32},   {NumberFormat::kInt4, 64},
    {NumberFormat::kInt4, 128},   {NumberFormat::kInt4Nl, 32}, {NumberFormat::kInt4Nl, 128},
    {NumberFormat::kInt8G32, 32}, {NumberFormat::kBit1, 128},  {NumberFormat::kBit2, 64},
};
constexpr uint32_t kWidths[] = {1, 31, 32, 33, 63, 64, 65, 96, 127, 128, 129, 160};
constexpr size_t kMostRowsOfX = 9;
constexpr float kLargestF16 = 65504.0f;
constexpr size_t kMostRows = 33;

// Scales of W: zero or normal; kAnyBits has the largest and the smallest that a file may hold.
float weight_scale(KernelTrial& t, Fill fill) {
  if (fill == Fill::kAnyBits) return t.below(2) == 0 ? 0x1.fep127f : 0x1p-64f;
  if (fill == Fill::kSpecial && t.below(4) == 0) return 0.0f;
  return __builtin_fabsf(t.random_float(Fill::kWide));
}

// Those of int4, int4nl and trained bits may be of either sign.
float signed_scale(KernelTrial& t, Fill fill) {
  const float scale = weight_scale(t, fill);
  return scale != 0.0f && t.below(2) == 0 ? -scale : scale;
}

void fill_matrix(KernelTrial& t, Fill fill, NumberFormat number_format, std::span<uint8_t> codes,
                 std::span<uint8_t> scales) {
  const bool is_int4 = has_nibbles(number_format);
  for (uint8_t& byte : codes) {
    const bool is_extreme = fill == Fill::kWide || fill == Fill::kAnyBits;
    const bool is_high = t.below(2) == 0;
    if (is_int4 || is_trained_bits(number_format)) {
      const uint8_t extreme = is_high ? 0xff : 0x00;  // all codes the largest or the least
      byte = is_extreme ? extreme : static_cast<uint8_t>(t.random());
    } else {
      const int extreme = is_high ? 127 : -127;
      byte = static_cast<uint8_t>(is_extreme ? extreme : static_cast<int>(t.below(255)) - 127);
    }
  }
  const size_t bytes = has_group_scales(number_format) ? sizeof(uint16_t) : sizeof(float);
  for (size_t i = 0; i < scales.size(); i += bytes) {
    const bool has_signs = may_be_signed(number_format) || has_f16_scales(number_format);
    const float scale = has_signs ? signed_scale(t, fill) : weight_scale(t, fill);
    if (has_f16_scales(number_format)) {
      const uint16_t half = f32_to_f16(std::clamp(scale, -kLargestF16, kLargestF16));
      std::memcpy(&scales[i], &half, sizeof half);
      continue;
    }
    std::memcpy(&scales[i], reinterpret_cast<const uint8_t*>(&scale) + sizeof scale - bytes, bytes);
  }
}

void compare_product(KernelTrial& t, const MatrixShape& shape, size_t n_rows, Fill fill) {
  const auto scalar = kScalarKernels.products.of[place_of(shape.number_format)].codes;
  const auto kernel = t.kernels().products.of[place_of(shape.number_format)].codes;
  if (kernel == scalar) return;
  const size_t padded = padded_cols(shape);
  const size_t n_groups = padded / kActivationGroup;
  const auto w = t.input<uint8_t>(static_cast<size_t>(code_plane_bytes(shape)));
  const auto w_scales = t.input<uint8_t>(static_cast<size_t>(scale_plane_bytes(shape)));
  fill_matrix(t, fill, shape.number_format, w, w_scales);
  const auto x = t.input_codes(n_rows * padded, fill);
  const auto x_scales = t.input_floats(n_rows * n_groups, scale_fill(fill));
  const auto sums = t.input<int32_t>(n_rows * n_groups);
  for (size_t i = 0; i < sums.size(); ++i) {
    x_scales[i] = fill == Fill::kSpecial && t.below(4) == 0 ? 0.0f : __builtin_fabsf(x_scales[i]);
    sums[i] = 0;
    for (size_t k = 0; k < kActivationGroup; ++k) sums[i] += x[i * kActivationGroup + k];
  }
  // Rows of y are further apart than long; what lies between them is compared as well.
  const size_t stride = shape.rows + t.below(7);
  const auto y = t.output<float>(n_rows == 0 ? 0 : (n_rows - 1) * stride + shape.rows);
  const size_t n_tiles = tile_count(shape.rows);
  const size_t first = t.below(n_tiles);
  const size_t last = first + 1 + t.below(n_tiles - first);
  const QuantizedRows rows = {x.data(), x_scales.data(), sums.data(), n_rows};
  scalar(shape, w.data(), w_scales.data(), first, last, rows, y.want.data(), stride);
  t.guarded(
      [&] { kernel(shape, w.data(), w_scales.data(), first, last, rows, y.got.data(), stride); });
  t.expect_same(number_format_name(shape.number_format), y);
}

}  // namespace

void compare_products(KernelTrial& t) {
  for (const auto& [f, group] : kFormats) {
    for (const Side side : kSides) {
      for (uint32_t rows = 1; rows <= kMostRows; ++rows) {
        for (const Fill fill : kFills) {
          t.begin(side);
          const uint32_t cols = kWidths[t.below(std::size(kWidths))];
          compare_product(t, {rows, cols, f, group}, 1 + t.below(kMostRowsOfX), fill);
        }
      }
      for (size_t n_rows = 0; n_rows <= kMostRowsOfX; ++n_rows) {
        for (const uint32_t cols : {1u, 160u, 640u}) {
          t.begin(side);
          const auto rows = static_cast<uint32_t>(1 + t.below(kMostRows));
          compare_product(t, {rows, cols, f, group}, n_rows, kFills[t.below(std::size(kFills))]);
        }
      }
    }
  }
}

}  // namespace cria::firmware_test
