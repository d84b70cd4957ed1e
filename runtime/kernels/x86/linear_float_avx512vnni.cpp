// Products with float matrices for processors with AVX-512. Contracts: runtime/kernels/kernels.h.
#include "runtime/kernels/x86/kernels_avx512vnni.h"

#if !defined(__AVX512F__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/x86/lanes_avx512.h"

namespace cria {
namespace {

static_assert(kLanes == kTileRows);
constexpr size_t kMaxRows = 6;  // twelve sums hide the latency of an addition
// Not compared with other distances: those of quantized weights (weight_fetch.h), 2 to 12 KB,
// differed by less than a twentieth on Zen 4.
constexpr size_t kBytesAhead = 8192;

struct Product {
  const uint8_t* codes;
  size_t cols;
  size_t rows;
  const float* x;
  float* y;
  size_t y_stride;
};

__m256i load_halves(const uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

struct F32 {
  static constexpr size_t kBytes = 4;
  static __m512 load(const uint8_t* p) { return _mm512_loadu_ps(p); }
};

struct F16 {
  static constexpr size_t kBytes = 2;
  static __m512 load(const uint8_t* p) { return _mm512_cvtph_ps(load_halves(p)); }
};

struct Bf16 {
  static constexpr size_t kBytes = 2;
  static __m512 load(const uint8_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load_halves(p)), 16));
  }
};

void store_tile(const Product& p, size_t row, size_t tile, __m512 value) {
  const size_t first = tile * kTileRows;
  _mm512_mask_storeu_ps(p.y + row * p.y_stride + first, lanes_of(p.rows - first), value);
}

// Tiles [tile, tile + kTiles) times rows [row, row + kRows).
template <class Weights, size_t kTiles, size_t kRows>
void multiply_block(const Product& p, size_t tile, size_t row) {
  constexpr size_t kLine = kTileRows * Weights::kBytes;
  const size_t tile_bytes = p.cols * kLine;
  const uint8_t* codes = p.codes + tile * tile_bytes;
  const float* x = p.x + row * p.cols;
  __m512 acc[kRows][kTiles];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = 0; t < kTiles; ++t) acc[r][t] = _mm512_setzero_ps();
  }
  for (size_t k = 0; k < p.cols; ++k) {
    __m512 w[kTiles];
#pragma GCC unroll 2
    for (size_t t = 0; t < kTiles; ++t) {
      const uint8_t* line = codes + t * tile_bytes + k * kLine;
      _mm_prefetch(reinterpret_cast<const char*>(line + kBytesAhead), _MM_HINT_T0);
      w[t] = Weights::load(line);
    }
#pragma GCC unroll 6
    for (size_t r = 0; r < kRows; ++r) {
      const __m512 value = _mm512_set1_ps(x[r * p.cols + k]);
#pragma GCC unroll 2
      for (size_t t = 0; t < kTiles; ++t) {
        acc[r][t] = _mm512_add_ps(acc[r][t], _mm512_mul_ps(w[t], value));
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = 0; t < kTiles; ++t) store_tile(p, row + r, tile + t, acc[r][t]);
  }
}

template <class Weights, size_t kTiles>
void multiply_tiles(const Product& p, size_t tile, size_t n_rows) {
  size_t row = 0;
  for (; row + kMaxRows <= n_rows; row += kMaxRows) {
    multiply_block<Weights, kTiles, kMaxRows>(p, tile, row);
  }
  for (; row + 2 <= n_rows; row += 2) multiply_block<Weights, kTiles, 2>(p, tile, row);
  if (row < n_rows) multiply_block<Weights, kTiles, 1>(p, tile, row);
}

template <class Weights>
void multiply(const MatrixShape& shape, const uint8_t* codes, size_t first_tile, size_t last_tile,
              const float* x, size_t n_rows, float* y, size_t y_stride) {
  const Product p = {codes, shape.cols, shape.rows, x, y, y_stride};
  size_t tile = first_tile;
  // One row waits for memory, which gives one stream faster than two.
  if (n_rows > kFloatRowsOfSingleTiles) {
    for (; tile + kMostTilesTogether <= last_tile; tile += kMostTilesTogether) {
      multiply_tiles<Weights, kMostTilesTogether>(p, tile, n_rows);
    }
  }
  for (; tile < last_tile; ++tile) multiply_tiles<Weights, 1>(p, tile, n_rows);
}

}  // namespace

void matmul_f32_f32_avx512vnni(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                               size_t last_tile, const float* x, size_t n_rows, float* y,
                               size_t y_stride) {
  multiply<F32>(shape, codes, first_tile, last_tile, x, n_rows, y, y_stride);
}

void matmul_f16_f32_avx512vnni(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                               size_t last_tile, const float* x, size_t n_rows, float* y,
                               size_t y_stride) {
  multiply<F16>(shape, codes, first_tile, last_tile, x, n_rows, y, y_stride);
}

void matmul_bf16_f32_avx512vnni(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                                size_t last_tile, const float* x, size_t n_rows, float* y,
                                size_t y_stride) {
  multiply<Bf16>(shape, codes, first_tile, last_tile, x, n_rows, y, y_stride);
}

}  // namespace cria
