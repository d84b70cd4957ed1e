// Integer matrix products for AArch64 cores with 8-bit matrix multiplication (Armv8.6: Neoverse V1,
// Cortex-X2 and later). One instruction multiplies two rows of W with two rows of x, 8 inputs each.
// Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/arm/neon.h"
#include "runtime/kernels/overrides.h"

#if !defined(__aarch64__) || !defined(__ARM_FEATURE_MATMUL_INT8)
#error "Build this file with -march=armv8.2-a+dotprod+i8mm (cmake/KernelFlags.cmake)."
#endif

#include <arm_neon.h>

#include "runtime/kernels/arm/neon_tiles.h"

namespace cria {
namespace {

constexpr size_t kStepInputs = 8;
constexpr size_t kSteps = kActivationGroup / kStepInputs;  // instructions that cover a group
constexpr size_t kPairs = kTileRows / 2;                   // pairs of rows of W in a tile
constexpr size_t kVectorBytes = 16;                        // two rows of W, one step

int8x16_t low_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

int8x16_t high_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

// Two rows of x for one group: for each step 8 inputs of the first and 8 of the second.
struct RowPair {
  int8x16_t step[kSteps];
};

RowPair load_pair(const int8_t* a, const int8_t* b) {
  const int8x16_t a_low = vld1q_s8(a);
  const int8x16_t a_high = vld1q_s8(a + kActivationGroup / 2);
  const int8x16_t b_low = vld1q_s8(b);
  const int8x16_t b_high = vld1q_s8(b + kActivationGroup / 2);
  return {{low_halves(a_low, b_low), high_halves(a_low, b_low), low_halves(a_high, b_high),
           high_halves(a_high, b_high)}};
}

// Interleaves two lines of four rows into pairs of rows with the 8 inputs of one step.
void store_step(int8x16_t first, int8x16_t second, int8_t* out) {
  const int32x4_t a = vreinterpretq_s32_s8(first);
  const int32x4_t b = vreinterpretq_s32_s8(second);
  vst1q_s8(out, vreinterpretq_s8_s32(vzip1q_s32(a, b)));
  vst1q_s8(out + kVectorBytes, vreinterpretq_s8_s32(vzip2q_s32(a, b)));
}

// Codes of one group of a tile in the order of the products: [step][pair of rows][2][8 inputs].
template <Codes kCodes>
void arrange_group(const uint8_t* codes, int8_t* out) {
  constexpr size_t kStepBytes = kPairs * kVectorBytes;
  for (size_t q = 0; q < kTileQuarters; ++q, codes += kQuarterBytes, out += 2 * kVectorBytes) {
    if constexpr (are_packed(kCodes)) {
      // Lines 2 * s and 2 * s + 1: the low nibbles are step s, the high ones step s + 2.
      for (size_t s = 0; s < kSteps / 2; ++s) {
        const uint8x16_t even = vld1q_u8(codes + 2 * s * kLineBytes);
        const uint8x16_t odd = vld1q_u8(codes + (2 * s + 1) * kLineBytes);
        const uint8x16_t mask = vdupq_n_u8(0x0f);
        store_step(values_of<kCodes>(vandq_u8(even, mask)), values_of<kCodes>(vandq_u8(odd, mask)),
                   out + s * kStepBytes);
        store_step(values_of<kCodes>(vshrq_n_u8(even, 4)), values_of<kCodes>(vshrq_n_u8(odd, 4)),
                   out + (s + kSteps / 2) * kStepBytes);
      }
    } else {
      for (size_t s = 0; s < kSteps; ++s) {
        const uint8_t* line = codes + 2 * s * kLineBytes;
        store_step(vreinterpretq_s8_u8(vld1q_u8(line)),
                   vreinterpretq_s8_u8(vld1q_u8(line + kLineBytes)), out + s * kStepBytes);
      }
    }
  }
}

float32x4_t repeat_pair(float a, float b) {
  const float32x2_t pair = vset_lane_f32(b, vdup_n_f32(a), 1);
  return vcombine_f32(pair, pair);
}

// The sums of two rows of x with a tile. A vector holds two rows of W with two of x: (w0, xa),
// (w0, xb), (w1, xa), (w1, xb).
struct PairSums {
  float32x4_t v[kPairs];
};

// The sums begin where the piece of the tile before left them in y.
PairSums load_sums(const TileCall& call, const TilePart& w, size_t i) {
  PairSums sums;
  for (size_t q = 0; q < kTileQuarters; ++q) {
    const size_t row = w.first_row + q * kQuarterRows;
    const bool is_first = w.first_group == 0;
    const float32x4_t a = is_first ? vdupq_n_f32(0.0f) : load_rows(call, i, row);
    const float32x4_t b = is_first ? vdupq_n_f32(0.0f) : load_rows(call, i + 1, row);
    sums.v[2 * q] = vzip1q_f32(a, b);
    sums.v[2 * q + 1] = vzip2q_f32(a, b);
  }
  return sums;
}

void store_sums(const TileCall& call, const TilePart& w, size_t i, const PairSums& sums) {
  for (size_t q = 0; q < kTileQuarters; ++q) {
    const size_t row = w.first_row + q * kQuarterRows;
    store_rows(call, i, row, vuzp1q_f32(sums.v[2 * q], sums.v[2 * q + 1]));
    store_rows(call, i + 1, row, vuzp2q_f32(sums.v[2 * q], sums.v[2 * q + 1]));
  }
}

// A piece of a tile, arranged, with rows i and i + 1 of x. Two pairs of rows at once would move
// sums to memory, which costs more than loading the weights again.
template <Codes kCodes>
void multiply_pair(const TileCall& call, const TilePart& w, const int8_t* arranged, size_t i) {
  PairSums sums = load_sums(call, w, i);
  for (size_t g = w.first_group; g < w.last_group; ++g, arranged += kGroupBytes) {
    const int8_t* x = call.x.codes + i * call.cols + g * kActivationGroup;
    const RowPair pair = load_pair(x, x + call.cols);
    const float* x_scales = call.x.scales + i * call.n_groups + g;
    const float32x4_t x_scale = repeat_pair(x_scales[0], x_scales[call.n_groups]);
    float32x4_t row_scales[kTileQuarters];
    load_scales<kCodes>(call, w, g, row_scales);
    for (size_t q = 0; q < kTileQuarters; ++q) {
      const float32x4_t w_scales[2] = {vzip1q_f32(row_scales[q], row_scales[q]),
                                       vzip2q_f32(row_scales[q], row_scales[q])};
      for (size_t half = 0; half < 2; ++half) {
        const size_t k = 2 * q + half;
        int32x4_t dot = vdupq_n_s32(0);
        for (size_t s = 0; s < kSteps; ++s) {
          const int8x16_t weights = vld1q_s8(arranged + (s * kPairs + k) * kVectorBytes);
          dot = vmmlaq_s32(dot, weights, pair.step[s]);
        }
        const float32x4_t scale = vmulq_f32(w_scales[half], x_scale);
        sums.v[k] = vaddq_f32(sums.v[k], vmulq_f32(vcvtq_f32_s32(dot), scale));
      }
    }
  }
  store_sums(call, w, i, sums);
}

// Codes of n_groups groups, whole blocks, of a tile from the first of them on.
template <Codes kCodes>
void arrange_groups(const uint8_t* codes, size_t n_groups, int8_t* out) {
  constexpr size_t kBytes = are_packed(kCodes) ? kInt4BlockBytes : kGroupBytes;
  if constexpr (are_bits(kCodes)) {
    constexpr size_t kBlockGroups = groups_of_block(kCodes);
    alignas(kLineBytes) uint8_t bytes[kBlockGroups * kGroupBytes];
    for (size_t g = 0; g < n_groups; g += kBlockGroups, codes += kInt4BlockBytes) {
      unpack_bits<kCodes>(codes, kBlockGroups, bytes);
      arrange_groups<unpacked(kCodes)>(bytes, kBlockGroups, out + g * kGroupBytes);
    }
  } else {
    for (size_t g = 0; g < n_groups; ++g) {
      arrange_group<kCodes>(codes + g * kBytes, out + g * kGroupBytes);
    }
  }
}

// Arranges each piece of a tile once for n_rows rows, an even number.
template <Codes kCodes>
void multiply_tile(const TileCall& call, const TilePart& tile, size_t n_rows) {
  constexpr size_t kBytes = are_packed(kCodes) || are_bits(kCodes) ? kInt4BlockBytes : kGroupBytes;
  constexpr size_t kBlockGroups = groups_of_block(kCodes);
  static_assert(kUnpackedGroups % kBlockGroups == 0);
  alignas(kLineBytes) int8_t arranged[kUnpackedGroups * kGroupBytes];
  for (size_t first = 0; first < call.n_groups; first += kUnpackedGroups) {
    const size_t end = first + kUnpackedGroups;
    const TilePart piece = {tile.codes, tile.scales, tile.first_row, first,
                            end < call.n_groups ? end : call.n_groups};
    arrange_groups<kCodes>(tile.codes + first / kBlockGroups * kBytes, piece.last_group - first,
                           arranged);
    for (size_t i = 0; i < n_rows; i += 2) multiply_pair<kCodes>(call, piece, arranged, i);
  }
}

// A last odd row, or the one row of a decode step, has no partner: dot products take it.
template <Codes kCodes>
void multiply_pairs(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                    size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                    size_t y_stride) {
  const TileCall call = tile_call(shape, x, y, y_stride);
  const auto code_bytes = static_cast<size_t>(tile_code_bytes(shape));
  const auto scale_bytes = static_cast<size_t>(tile_scale_bytes(shape));
  const size_t n_even = x.n_rows - x.n_rows % 2;
  for (size_t tile = first_tile; tile < last_tile && n_even != 0; ++tile) {
    const TilePart w = {codes + tile * code_bytes, scales + tile * scale_bytes, tile * kTileRows, 0,
                        call.n_groups};
    multiply_tile<kCodes>(call, w, n_even);
  }
  if (n_even == x.n_rows) return;
  const QuantizedRows last = {x.codes + n_even * call.cols, x.scales + n_even * call.n_groups,
                              x.sums + n_even * call.n_groups, 1};
  DotprodProduct<kCodes>::multiply(shape, codes, scales, first_tile, last_tile, last,
                                   y + n_even * y_stride, y_stride);
}

template <Codes kCodes>
struct I8mmProduct {
  static constexpr MatmulQ8 multiply = multiply_pairs<kCodes>;
};

}  // namespace

void override_i8mm(Kernels* table, uint32_t /*isa_mask*/) { fill_products<I8mmProduct>(table); }

}  // namespace cria
