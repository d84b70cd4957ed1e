// Matrix products for processors with AVX-512 VNNI. Contracts are in runtime/kernels/kernels.h.
//
// A tile's 16 rows are the lanes of one register. Weights go to vpdpbusd as unsigned bytes, code +
// offset; starting each group's sum at -offset * sum(activations) takes the offset out again.
#include "runtime/kernels/x86/kernels_avx512vnni.h"

#if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512VNNI__)
#error "Build this file with the flags of its ending (cmake/KernelFlags.cmake)."
#endif

#include <immintrin.h>

#include "runtime/kernels/weight_fetch.h"
#include "runtime/kernels/x86/nl_bytes.h"

namespace cria {
namespace {

constexpr size_t kQuads = kActivationGroup / 4;
constexpr size_t kBlockGroups = 64;  // groups whose starting sums are prepared together
constexpr size_t kMaxRows = 6;       // with two tiles, what 32 registers hold

// One call's matrix, activations and output.
struct Product {
  const uint8_t* codes;
  const uint8_t* scales;
  size_t tile_code_bytes;
  size_t tile_scale_bytes;
  size_t n_groups;
  size_t groups_per_scale;
  size_t rows;
  const int8_t* x;
  const float* x_scales;
  const int32_t* x_sums;
  size_t n_rows;  // of x
  float* y;
  size_t y_stride;
};

__m512i broadcast4(const int8_t* p) {
  int32_t quad;
  __builtin_memcpy(&quad, p, sizeof quad);
  return _mm512_set1_epi32(quad);
}

// The kinds of weights: pair() gives the bytes for inputs 4j.. and 4(j + 4).. of a group.
struct Int4 {
  static constexpr int32_t kOffset = 8;
  static constexpr size_t kGroupBytes = 256;

  static void pair(const uint8_t* group, size_t j, __m512i* first, __m512i* second) {
    const __m512i low_bits = _mm512_set1_epi8(0x0f);
    const __m512i line = _mm512_loadu_si512(group + j * kLineBytes);
    *first = _mm512_and_si512(line, low_bits);
    *second = _mm512_and_si512(_mm512_srli_epi16(line, 4), low_bits);
  }

  static __m512 scale(const uint8_t* tile, size_t group, size_t groups_per_scale) {
    const uint8_t* p = tile + group / groups_per_scale * (kTileRows * 2);
    const __m256i bf16 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
  }
};

struct Int4Nl : Int4 {
  static constexpr int32_t kOffset = kInt4NlLargest;

  static void pair(const uint8_t* group, size_t j, __m512i* first, __m512i* second) {
    const __m512i values = _mm512_broadcast_i32x4(nl_bytes());
    Int4::pair(group, j, first, second);
    *first = _mm512_shuffle_epi8(values, *first);
    *second = _mm512_shuffle_epi8(values, *second);
  }
};

struct Int8 {
  static constexpr int32_t kOffset = 128;
  static constexpr size_t kGroupBytes = 512;

  static void pair(const uint8_t* group, size_t j, __m512i* first, __m512i* second) {
    const __m512i offset = _mm512_set1_epi8(static_cast<char>(0x80));
    *first = _mm512_xor_si512(_mm512_loadu_si512(group + j * kLineBytes), offset);
    *second = _mm512_xor_si512(_mm512_loadu_si512(group + (j + 4) * kLineBytes), offset);
  }

  static __m512 scale(const uint8_t* tile, size_t /*group*/, size_t /*groups_per_scale*/) {
    return _mm512_loadu_ps(tile);
  }
};

// A scale is for one group of activations.
struct Int8G32 : Int8 {
  static __m512 scale(const uint8_t* tile, size_t group, size_t /*groups_per_scale*/) {
    return Int4::scale(tile, group, 1);
  }
};

void store_tile(const Product& p, size_t row, size_t tile, __m512 value) {
  const size_t first = tile * kTileRows;
  const size_t left = p.rows - first;
  const auto mask = static_cast<__mmask16>(left < kTileRows ? (1u << left) - 1 : 0xffff);
  _mm512_mask_storeu_ps(p.y + row * p.y_stride + first, mask, value);
}

// Where a block of kTiles tiles times kRows rows stands in a product.
struct Block {
  const uint8_t* codes;
  const uint8_t* scales;
  const int8_t* x;
  const float* x_scales;
  const int32_t* x_sums;
};

Block block_at(const Product& p, size_t tile, size_t row) {
  return {
      .codes = p.codes + tile * p.tile_code_bytes,
      .scales = p.scales + tile * p.tile_scale_bytes,
      .x = p.x + row * p.n_groups * kActivationGroup,
      .x_scales = p.x_scales + row * p.n_groups,
      .x_sums = p.x_sums + row * p.n_groups,
  };
}

void fetch(const uint8_t* p, size_t n_bytes) {
  for (size_t i = 0; i < n_bytes; i += kLineBytes) {
    _mm_prefetch(reinterpret_cast<const char*>(p + i), _MM_HINT_T0);
  }
}

// Adds the integer dot products of group g to sums.
template <class Weights, size_t kTiles, size_t kRows>
[[gnu::always_inline]] inline void dot_group(const Product& p, const Block& b, size_t g,
                                             __m512i (&sums)[kRows][kTiles]) {
#pragma GCC unroll 4
  for (size_t j = 0; j < kQuads / 2; ++j) {
    __m512i first[kTiles];
    __m512i second[kTiles];
#pragma GCC unroll 2
    for (size_t t = 0; t < kTiles; ++t) {
      const uint8_t* group = b.codes + t * p.tile_code_bytes + g * Weights::kGroupBytes;
      Weights::pair(group, j, &first[t], &second[t]);
    }
#pragma GCC unroll 6
    for (size_t r = 0; r < kRows; ++r) {
      const int8_t* quads = b.x + (r * p.n_groups + g) * kActivationGroup + j * 4;
      const __m512i x_first = broadcast4(quads);
      const __m512i x_second = broadcast4(quads + kActivationGroup / 2);
#pragma GCC unroll 2
      for (size_t t = 0; t < kTiles; ++t) {
        sums[r][t] = _mm512_dpbusd_epi32(sums[r][t], first[t], x_first);
      }
#pragma GCC unroll 2
      for (size_t t = 0; t < kTiles; ++t) {
        sums[r][t] = _mm512_dpbusd_epi32(sums[r][t], second[t], x_second);
      }
    }
  }
}

// acc += float(sums) * (weight scale * activation scale) for group g.
template <class Weights, size_t kTiles, size_t kRows>
[[gnu::always_inline]] inline void add_scaled_group(const Product& p, const Block& b, size_t g,
                                                    const __m512i (&sums)[kRows][kTiles],
                                                    __m512 (&acc)[kRows][kTiles]) {
#pragma GCC unroll 2
  for (size_t t = 0; t < kTiles; ++t) {
    const __m512 scale = Weights::scale(b.scales + t * p.tile_scale_bytes, g, p.groups_per_scale);
#pragma GCC unroll 6
    for (size_t r = 0; r < kRows; ++r) {
      const __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(b.x_scales[r * p.n_groups + g]));
      acc[r][t] = _mm512_add_ps(acc[r][t], _mm512_mul_ps(_mm512_cvtepi32_ps(sums[r][t]), both));
    }
  }
}

// Tiles [tile, tile + kTiles) times rows [row, row + kRows). Every sum stays in a register.
template <class Weights, size_t kTiles, size_t kRows>
void multiply_block(const Product& p, size_t tile, size_t row) {
  const Block b = block_at(p, tile, row);
  // Each block of many rows fetches a quarter of a tile, so that the blocks together have the next
  // tiles ready.
  constexpr size_t kFetchBytes = Weights::kGroupBytes / 4;
  constexpr size_t kBurstGroups = kFetchBurst / Weights::kGroupBytes;
  const uint8_t* later =
      b.codes + kTiles * p.tile_code_bytes + row / kMaxRows * p.n_groups * kFetchBytes;
  __m512 acc[kRows][kTiles];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = 0; t < kTiles; ++t) acc[r][t] = _mm512_setzero_ps();
  }
  for (size_t begin = 0; begin < p.n_groups; begin += kBlockGroups) {
    const size_t end = begin + kBlockGroups < p.n_groups ? begin + kBlockGroups : p.n_groups;
    int32_t starts[kBlockGroups][kRows];
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t g = begin; g < end; ++g) {
        starts[g - begin][r] = -Weights::kOffset * b.x_sums[r * p.n_groups + g];
      }
    }
    for (size_t g = begin; g < end; ++g) {
      if constexpr (kRows == 1) {
        if (g % kBurstGroups == 0) {
          fetch(b.codes + g * Weights::kGroupBytes + kFetchAhead, kFetchBurst);
        }
      } else if (p.n_rows <= kMaxRows) {
        // The only block: the tokens of a few sessions.
        for (size_t t = kTiles; t < 2 * kTiles; ++t) {
          fetch(b.codes + t * p.tile_code_bytes + g * Weights::kGroupBytes, Weights::kGroupBytes);
        }
      } else {
        fetch(later + g * kFetchBytes, kFetchBytes);
      }
      __m512i sums[kRows][kTiles];
#pragma GCC unroll 6
      for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (size_t t = 0; t < kTiles; ++t) sums[r][t] = _mm512_set1_epi32(starts[g - begin][r]);
      }
      dot_group<Weights>(p, b, g, sums);
      add_scaled_group<Weights>(p, b, g, sums, acc);
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t t = 0; t < kTiles; ++t) store_tile(p, row + r, tile + t, acc[r][t]);
  }
}

template <class Weights, size_t kTiles>
void multiply_rows(const Product& p, size_t tile, size_t row, size_t n_rows) {
  switch (n_rows) {
    case 1:
      return multiply_block<Weights, kTiles, 1>(p, tile, row);
    case 2:
      return multiply_block<Weights, kTiles, 2>(p, tile, row);
    case 3:
      return multiply_block<Weights, kTiles, 3>(p, tile, row);
    case 4:
      return multiply_block<Weights, kTiles, 4>(p, tile, row);
    case 5:
      return multiply_block<Weights, kTiles, 5>(p, tile, row);
    default:
      return multiply_block<Weights, kTiles, kMaxRows>(p, tile, row);
  }
}

template <class Weights, size_t kTiles>
void multiply_tiles(const Product& p, size_t tile, size_t n_rows) {
  for (size_t row = 0; row < n_rows; row += kMaxRows) {
    multiply_rows<Weights, kTiles>(p, tile, row, n_rows - row < kMaxRows ? n_rows - row : kMaxRows);
  }
}

template <class Weights>
void multiply(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
              size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
              size_t y_stride) {
  const Product p = {
      .codes = codes,
      .scales = scales,
      .tile_code_bytes = tile_code_bytes(shape),
      .tile_scale_bytes = tile_scale_bytes(shape),
      .n_groups = padded_cols(shape) / kActivationGroup,
      .groups_per_scale = shape.group_size / kActivationGroup,
      .rows = shape.rows,
      .x = x.codes,
      .x_scales = x.scales,
      .x_sums = x.sums,
      .n_rows = x.n_rows,
      .y = y,
      .y_stride = y_stride,
  };
  if (x.n_rows == 1) {
    // One stream: two tiles at once were slower.
    for (size_t t = first_tile; t < last_tile; ++t) multiply_block<Weights, 1, 1>(p, t, 0);
    return;
  }
  size_t tile = first_tile;
  for (; tile + 2 <= last_tile; tile += 2) multiply_tiles<Weights, 2>(p, tile, x.n_rows);
  if (tile < last_tile) multiply_tiles<Weights, 1>(p, tile, x.n_rows);
}

}  // namespace

void matmul_q4_q8_avx512vnni(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                             size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                             size_t y_stride) {
  multiply<Int4>(shape, codes, scales, first_tile, last_tile, x, y, y_stride);
}

void matmul_q4nl_q8_avx512vnni(const MatrixShape& shape, const uint8_t* codes,
                               const uint8_t* scales, size_t first_tile, size_t last_tile,
                               const QuantizedRows& x, float* y, size_t y_stride) {
  multiply<Int4Nl>(shape, codes, scales, first_tile, last_tile, x, y, y_stride);
}

void matmul_q8_q8_avx512vnni(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                             size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                             size_t y_stride) {
  multiply<Int8>(shape, codes, scales, first_tile, last_tile, x, y, y_stride);
}

void matmul_q8g_q8_avx512vnni(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                              size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                              size_t y_stride) {
  multiply<Int8G32>(shape, codes, scales, first_tile, last_tile, x, y, y_stride);
}

}  // namespace cria
