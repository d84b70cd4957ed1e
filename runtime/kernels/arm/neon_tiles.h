// The frame that the integer products of NEON and dotprod share: which part of a tile meets which
// rows, and the float sums of the contract. An ISA supplies Dots, the integer part:
//
//   template <Codes kCodes, size_t kQuarters, size_t kRows>
//   static void group(const uint8_t* codes, const int8_t* const (&x)[kRows],
//                     const int32_t (&sums)[kRows], int32x4_t (&dots)[kRows][kQuarters]);
//
// the exact dot products of one group of 32 inputs: of 4 * kQuarters rows of W, whose bytes begin
// at codes in lines 64 bytes apart, with kRows rows of 32 activations that sum to sums. And
// Dots::kBlockRows, the rows that it takes best at once when there are many. And
//
//   template <size_t kBits, size_t kQuarters>
//   static void bit_group(const uint8_t* codes, size_t place, const int8_t* x, int32_t sum,
//                         int32x4_t (&dots)[kQuarters]);
//
// the same of one row and the group at a place of a block of bits: of each line a quad's codes,
// and above them those of the quad four on.
#pragma once

#if defined(__ARM_NEON)

#include <arm_neon.h>

#include "runtime/kernels/arm/neon_math.h"

namespace cria {

inline constexpr size_t kQuarterRows = 4;  // rows of W in a vector: a quarter of a tile
inline constexpr size_t kQuarterBytes = kLineBytes / 4;
inline constexpr size_t kTileQuarters = kTileRows / kQuarterRows;

inline constexpr size_t kGroupBytes = kTileRows * kActivationGroup;  // one byte a code
// int4 is unpacked in pieces of this many groups, for at least this many rows.
inline constexpr size_t kUnpackedGroups = 16;
inline constexpr size_t kUnpackedRows = 4;

// How the codes of W stand: as an int4 plane, as an int8 plane, or as int4 codes unpacked to bytes
// in the order of an int8 plane; those of int4nl, bit1 and bit2 become the values they stand for.
// kGroupedBytes are int8g32's.
enum class Codes {
  kNibbles,
  kBytes,
  kUnpacked,
  kNlNibbles,
  kNlUnpacked,
  kGroupedBytes,
  kBit1,
  kBit2,
  kBitsUnpacked,
};

// Bits of a code of bit1 and bit2.
static constexpr size_t bits_of(Codes codes) {
  if (codes == Codes::kBit1) return 1;
  return codes == Codes::kBit2 ? 2 : 0;
}
static constexpr bool are_bits(Codes codes) { return bits_of(codes) != 0; }

// Groups of activations whose codes, and scale, are one block of lines.
static constexpr size_t groups_of_block(Codes codes) {
  return are_bits(codes) ? 8 / (2 * bits_of(codes)) : 1;
}
static constexpr bool has_f16_scales(Codes codes) {
  return are_bits(codes) || codes == Codes::kBitsUnpacked;
}

static constexpr bool are_packed(Codes codes) {
  return codes == Codes::kNibbles || codes == Codes::kNlNibbles;
}
static constexpr Codes unpacked(Codes codes) {
  if (are_bits(codes)) return Codes::kBitsUnpacked;
  return codes == Codes::kNlNibbles ? Codes::kNlUnpacked : Codes::kUnpacked;
}

static constexpr bool are_int8(Codes codes) {
  return codes == Codes::kBytes || codes == Codes::kGroupedBytes;
}

static constexpr bool has_row_scales(Codes codes) { return codes == Codes::kBytes; }

// One product: the arguments of the kernel and what follows from them.
struct TileCall {
  const MatrixShape& shape;
  QuantizedRows x;
  float* y;
  size_t y_stride;
  size_t cols;
  size_t n_groups;
  size_t scale_shift;  // log2 of the groups of activations that share a scale
};

static inline TileCall tile_call(const MatrixShape& shape, const QuantizedRows& x, float* y,
                                 size_t y_stride) {
  const size_t cols = padded_cols(shape);
  const bool has_groups = has_group_scales(shape.number_format);
  const unsigned sharing = has_groups ? shape.group_size / unsigned{kActivationGroup} : 1u;
  return {shape,
          x,
          y,
          y_stride,
          cols,
          cols / kActivationGroup,
          static_cast<size_t>(__builtin_ctz(sharing))};
}

// Part of one tile for a range of groups. codes begin at the first group, scales at group 0, both
// at the first row, which is row first_row of the matrix.
struct TilePart {
  const uint8_t* codes;
  const uint8_t* scales;
  size_t first_row;
  size_t first_group;
  size_t last_group;
};

template <Codes kCodes>
static inline TilePart quarter_of(const TilePart& tile, size_t quarter) {
  constexpr size_t kScaleBytes = has_row_scales(kCodes) ? sizeof(float) : sizeof(uint16_t);
  TilePart part = tile;
  part.codes += quarter * kQuarterBytes;
  part.scales += quarter * kQuarterRows * kScaleBytes;
  part.first_row += quarter * kQuarterRows;
  return part;
}

static inline float32x4_t load_bf16(const uint8_t* p) {
  const uint16x4_t halves = vreinterpret_u16_u8(vld1_u8(p));
  return vreinterpretq_f32_u32(vshll_n_u16(halves, 16));
}

static inline float32x4_t load_f32x4(const uint8_t* p) { return vreinterpretq_f32_u8(vld1q_u8(p)); }

// Scales of 4 * kQuarters rows of W for the inputs of one group of activations.
template <Codes kCodes, size_t kQuarters>
[[gnu::always_inline]] static inline void load_scales(const TileCall& call, const TilePart& w,
                                                      size_t group,
                                                      float32x4_t (&scales)[kQuarters]) {
  if constexpr (has_row_scales(kCodes)) {
    for (size_t q = 0; q < kQuarters; ++q) {
      scales[q] = load_f32x4(w.scales + q * kQuarterRows * sizeof(float));
    }
  } else {
    static_assert(kQuarters % 2 == 0);
    const uint8_t* p = w.scales + (group >> call.scale_shift) * (kTileRows * sizeof(uint16_t));
    for (size_t q = 0; q < kQuarters; q += 2, p += 2 * kQuarterRows * sizeof(uint16_t)) {
      const uint16x8_t halves = vreinterpretq_u16_u8(vld1q_u8(p));
      if constexpr (has_f16_scales(kCodes)) {
        const float16x8_t both = vreinterpretq_f16_u16(halves);
        scales[q] = vcvt_f32_f16(vget_low_f16(both));  // exact, subnormal halves too
        scales[q + 1] = vcvt_f32_f16(vget_high_f16(both));
        continue;
      }
      // A bf16 is the upper half of a float.
      const uint16x8x2_t both = vzipq_u16(vdupq_n_u16(0), halves);
      scales[q] = vreinterpretq_f32_u16(both.val[0]);
      scales[q + 1] = vreinterpretq_f32_u16(both.val[1]);
    }
  }
}

// Writes four rows of y that begin at row, but none past the matrix.
static inline void store_rows(const TileCall& call, size_t i, size_t row, float32x4_t values) {
  float* y = call.y + i * call.y_stride + row;
  if (row + kQuarterRows <= call.shape.rows) {
    vst1q_f32(y, values);
  } else if (row < call.shape.rows) {
    float four[kQuarterRows];
    vst1q_f32(four, values);
    std::memcpy(y, four, (call.shape.rows - row) * sizeof(float));
  }
}

// Four rows of y that begin at row, as store_rows left them.
static inline float32x4_t load_rows(const TileCall& call, size_t i, size_t row) {
  const float* y = call.y + i * call.y_stride + row;
  if (row + kQuarterRows <= call.shape.rows) return vld1q_f32(y);
  float four[kQuarterRows] = {};
  if (row < call.shape.rows) std::memcpy(four, y, (call.shape.rows - row) * sizeof(float));
  return vld1q_f32(four);
}

// 4 * kQuarters rows of W with rows i ... i + kRows - 1 of x.
template <class Dots, Codes kCodes, size_t kQuarters, size_t kRows>
static void multiply_part(const TileCall& call, const TilePart& w, size_t i) {
  constexpr size_t kBytes = are_packed(kCodes) || are_bits(kCodes) ? kInt4BlockBytes : kGroupBytes;
  constexpr size_t kBlockGroups = groups_of_block(kCodes);
  float32x4_t acc[kRows][kQuarters];
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t q = 0; q < kQuarters; ++q) {
      acc[r][q] = w.first_group == 0 ? vdupq_n_f32(0.0f)
                                     : load_rows(call, i + r, w.first_row + q * kQuarterRows);
    }
  }
  const uint8_t* codes = w.codes;
  for (size_t g = w.first_group; g < w.last_group; ++g) {
    const int8_t* x[kRows];
    int32_t sums[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      x[r] = call.x.codes + (i + r) * call.cols + g * kActivationGroup;
      sums[r] = call.x.sums[(i + r) * call.n_groups + g];
    }
    int32x4_t dots[kRows][kQuarters];
    if constexpr (are_bits(kCodes)) {
      Dots::template bit_group<bits_of(kCodes), kQuarters>(codes, g % kBlockGroups, x[0], sums[0],
                                                           dots[0]);
    } else {
      Dots::template group<kCodes, kQuarters, kRows>(codes, x, sums, dots);
    }
    if ((g + 1) % kBlockGroups == 0) codes += kBytes;
    float32x4_t w_scales[kQuarters];
    load_scales<kCodes>(call, w, g, w_scales);
    for (size_t q = 0; q < kQuarters; ++q) {
      for (size_t r = 0; r < kRows; ++r) {
        const float x_scale = call.x.scales[(i + r) * call.n_groups + g];
        const float32x4_t scale = vmulq_n_f32(w_scales[q], x_scale);
        acc[r][q] = vaddq_f32(acc[r][q], vmulq_f32(vcvtq_f32_s32(dots[r][q]), scale));
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t q = 0; q < kQuarters; ++q) {
      store_rows(call, i + r, w.first_row + q * kQuarterRows, acc[r][q]);
    }
  }
}

// One tile with all rows of x: blocks of kRows rows with half a tile, whose sums fit the registers,
// and the rest one by one with as much of the tile as one row can take, so that W streams.
template <class Dots, Codes kCodes, size_t kRows>
static inline void multiply_rows(const TileCall& call, const TilePart& tile) {
  size_t i = 0;
  if constexpr (kRows != 1) {
    for (; i + kRows <= call.x.n_rows; i += kRows) {
      multiply_part<Dots, kCodes, 2, kRows>(call, tile, i);
      multiply_part<Dots, kCodes, 2, kRows>(call, quarter_of<kCodes>(tile, 2), i);
    }
  }
  for (; i < call.x.n_rows; ++i) {
    for (size_t q = 0; q < kTileQuarters; q += kOneRowQuarters) {
      multiply_part<Dots, kCodes, kOneRowQuarters, 1>(call, quarter_of<kCodes>(tile, q), i);
    }
  }
}

// What nibbles stand for: codes of int4, or values of int4nl.
template <Codes kCodes>
static inline int8x16_t values_of(uint8x16_t nibbles) {
  if constexpr (kCodes == Codes::kNlNibbles) {
    return look_up(vld1q_s8(kInt4NlValues), nibbles);
  } else {
    return vsubq_s8(vreinterpretq_s8_u8(nibbles), vdupq_n_s8(kNibbleZero));
  }
}

// The same for products with all rows' sums at hand: nibbles of int4 stay 0 ... 15, 8 too large.
template <Codes kCodes>
static inline int8x16_t factors_of(uint8x16_t nibbles) {
  if constexpr (kCodes == Codes::kNlNibbles) {
    return values_of<kCodes>(nibbles);
  } else {
    return vreinterpretq_s8_u8(nibbles);
  }
}

// Codes of n_groups groups of an int4 tile as bytes.
template <Codes kCodes>
static inline void unpack_groups(const uint8_t* nibbles, size_t n_groups, uint8_t* bytes) {
  constexpr size_t kHalfGroup = kGroupBytes / 2;
  for (size_t g = 0; g < n_groups; ++g, nibbles += kInt4BlockBytes, bytes += kGroupBytes) {
    for (size_t k = 0; k < kInt4BlockBytes; k += kQuarterBytes) {
      const uint8x16_t packed = vld1q_u8(nibbles + k);
      const int8x16_t low = values_of<kCodes>(vandq_u8(packed, vdupq_n_u8(0x0f)));
      const int8x16_t high = values_of<kCodes>(vshrq_n_u8(packed, 4));
      vst1q_u8(bytes + k, vreinterpretq_u8_s8(low));
      vst1q_u8(bytes + kHalfGroup + k, vreinterpretq_u8_s8(high));
    }
  }
}

// Codes of bits of n_groups groups, whole blocks, as the bytes that they stand for.
template <Codes kCodes>
static inline void unpack_bits(const uint8_t* blocks, size_t n_groups, uint8_t* bytes) {
  constexpr size_t kBits = bits_of(kCodes);
  constexpr size_t kHalfGroup = kGroupBytes / 2;
  const uint8x16_t mask = vdupq_n_u8((1 << kBits) - 1);
  const auto value_of = [](uint8x16_t code) {
    const uint8x16_t twice = kBits == 1 ? vaddq_u8(code, code) : code;
    return vsubq_u8(twice, vdupq_n_u8(1));
  };
  for (size_t g = 0; g < n_groups; ++g, bytes += kGroupBytes) {
    const auto bit = static_cast<int8_t>(g % groups_of_block(kCodes) * 2 * kBits);
    for (size_t k = 0; k < kInt4BlockBytes; k += kQuarterBytes) {
      const uint8x16_t even = vshlq_u8(vld1q_u8(blocks + k), vdupq_n_s8(static_cast<int8_t>(-bit)));
      vst1q_u8(bytes + k, value_of(vandq_u8(even, mask)));
      vst1q_u8(bytes + kHalfGroup + k, value_of(vandq_u8(vshrq_n_u8(even, kBits), mask)));
    }
    if ((g + 1) % groups_of_block(kCodes) == 0) blocks += kInt4BlockBytes;
  }
}

// Unpacks a piece of an int4 tile once for all rows. Between pieces y holds the sums so far.
template <class Dots, Codes kCodes>
static void multiply_unpacked(const TileCall& call, const TilePart& tile) {
  alignas(kLineBytes) uint8_t bytes[kUnpackedGroups * kGroupBytes];
  for (size_t g = 0; g < call.n_groups; g += kUnpackedGroups) {
    const size_t end = g + kUnpackedGroups < call.n_groups ? g + kUnpackedGroups : call.n_groups;
    static_assert(kUnpackedGroups % groups_of_block(kCodes) == 0);
    const uint8_t* const from = tile.codes + g / groups_of_block(kCodes) * kInt4BlockBytes;
    if constexpr (are_bits(kCodes)) {
      unpack_bits<kCodes>(from, end - g, bytes);
    } else {
      unpack_groups<kCodes>(from, end - g, bytes);
    }
    const TilePart piece = {bytes, tile.scales, tile.first_row, g, end};
    multiply_rows<Dots, unpacked(kCodes), Dots::kBlockRows>(call, piece);
  }
}

template <class Dots, Codes kCodes>
static void multiply_tiles(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                           size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                           size_t y_stride) {
  const TileCall call = tile_call(shape, x, y, y_stride);
  const auto code_bytes = static_cast<size_t>(tile_code_bytes(shape));
  const auto scale_bytes = static_cast<size_t>(tile_scale_bytes(shape));
  for (size_t tile = first_tile; tile < last_tile; ++tile) {
    const TilePart w = {codes + tile * code_bytes, scales + tile * scale_bytes, tile * kTileRows, 0,
                        call.n_groups};
    if constexpr (are_int8(kCodes)) {
      multiply_rows<Dots, kCodes, Dots::kBlockRows>(call, w);
    } else if (x.n_rows < kUnpackedRows) {
      multiply_rows<Dots, kCodes, 1>(call, w);
    } else {
      multiply_unpacked<Dots, kCodes>(call, w);
    }
  }
}

// Products of dotprod (linear_dotprod.cpp), which take a single row for i8mm too.
template <Codes kCodes>
struct DotprodProduct {
  static void multiply(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                       size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                       size_t y_stride);
};

// Puts Product<...>::multiply into a table, for each format with codes.
template <template <Codes> class Product>
static void fill_products(Kernels* table) {
  const auto put = [table](format::NumberFormat f, MatmulQ8 multiply) {
    table->products.of[place_of(f)].codes = multiply;
  };
  put(format::NumberFormat::kInt4, Product<Codes::kNibbles>::multiply);
  put(format::NumberFormat::kInt4Nl, Product<Codes::kNlNibbles>::multiply);
  put(format::NumberFormat::kInt8, Product<Codes::kBytes>::multiply);
  put(format::NumberFormat::kInt8G32, Product<Codes::kGroupedBytes>::multiply);
  put(format::NumberFormat::kBit1, Product<Codes::kBit1>::multiply);
  put(format::NumberFormat::kBit2, Product<Codes::kBit2>::multiply);
}

}  // namespace cria

#endif  // __ARM_NEON
