// Float matrix products for Advanced SIMD: the 16 rows of a tile side by side.
// Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/arm/neon.h"

#if !defined(__ARM_NEON)
#error "Build this file for Advanced SIMD (cmake/KernelFlags.cmake)."
#endif

#include <arm_neon.h>

#include <cstring>

#include "runtime/kernels/arm/neon_tiles.h"

namespace cria {
namespace {

// Each format: bytes of a weight, and four of them as f32.
struct F32Weights {
  static constexpr size_t kBytes = 4;
  static float32x4_t load(const uint8_t* p) { return load_f32x4(p); }
};

struct F16Weights {
  static constexpr size_t kBytes = 2;
  static float32x4_t load(const uint8_t* p) {
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(p)));  // exact, subnormal halves too
  }
};

struct Bf16Weights {
  static constexpr size_t kBytes = 2;
  static float32x4_t load(const uint8_t* p) { return load_bf16(p); }
};

// One tile with rows i ... i + kRows - 1 of x.
template <class Weights, size_t kRows>
void multiply_tile(const TileCall& call, const TilePart& w, const float* x, size_t i) {
  float32x4_t acc[kRows][kTileQuarters];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t q = 0; q < kTileQuarters; ++q) acc[r][q] = vdupq_n_f32(0.0f);
  }
  for (size_t col = 0; col < call.cols; ++col) {
    const uint8_t* p = w.codes + col * kTileRows * Weights::kBytes;
    for (size_t q = 0; q < kTileQuarters; ++q) {
      const float32x4_t weights = Weights::load(p + q * kQuarterRows * Weights::kBytes);
      for (size_t r = 0; r < kRows; ++r) {
        acc[r][q] = vaddq_f32(acc[r][q], vmulq_n_f32(weights, x[(i + r) * call.cols + col]));
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t q = 0; q < kTileQuarters; ++q) {
      store_rows(call, i + r, w.first_row + q * kQuarterRows, acc[r][q]);
    }
  }
}

template <class Weights>
void multiply(const MatrixShape& shape, const uint8_t* codes, size_t first_tile, size_t last_tile,
              const float* x, size_t n_rows, float* y, size_t y_stride) {
  const TileCall call = tile_call(shape, {}, y, y_stride);
  const size_t tile_bytes = shape.cols * kTileRows * Weights::kBytes;
  for (size_t tile = first_tile; tile < last_tile; ++tile) {
    const TilePart w = {codes + tile * tile_bytes, nullptr, tile * kTileRows, 0, 0};
    size_t i = 0;
    for (; i + kNeonBlockRows <= n_rows; i += kNeonBlockRows) {
      multiply_tile<Weights, kNeonBlockRows>(call, w, x, i);
    }
    for (; i < n_rows; ++i) multiply_tile<Weights, 1>(call, w, x, i);
  }
}

}  // namespace

void matmul_f32_f32_neon(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                         size_t last_tile, const float* x, size_t n_rows, float* y,
                         size_t y_stride) {
  multiply<F32Weights>(shape, codes, first_tile, last_tile, x, n_rows, y, y_stride);
}

void matmul_f16_f32_neon(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                         size_t last_tile, const float* x, size_t n_rows, float* y,
                         size_t y_stride) {
  multiply<F16Weights>(shape, codes, first_tile, last_tile, x, n_rows, y, y_stride);
}

void matmul_bf16_f32_neon(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                          size_t last_tile, const float* x, size_t n_rows, float* y,
                          size_t y_stride) {
  multiply<Bf16Weights>(shape, codes, first_tile, last_tile, x, n_rows, y, y_stride);
}

}  // namespace cria
