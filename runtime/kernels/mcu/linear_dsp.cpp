// Integer products for Cortex-M cores with the DSP extension: two products of 16 bits an
// instruction. Contracts are in runtime/kernels/kernels.h.
#include "runtime/kernels/mcu/dsp.h"
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/row_blocks.h"

#if !defined(__ARM_FEATURE_DSP) || !defined(__ARM_FEATURE_SIMD32)
#error "Build this file for a core with the DSP extension (cmake/KernelFlags.cmake)."
#endif

#include <arm_acle.h>

#include <cstring>
#include <iterator>

namespace cria {
namespace {

constexpr size_t kWordsPerGroup = kActivationGroup / kWordBytes;  // a word of a row in each line
constexpr size_t kLineWords = kTileRows;
constexpr size_t kBlockLines = kWordsPerGroup / 2;  // of an int4 group: two inputs a byte
constexpr uint32_t kNibblePairs = 0x000f000f;
// Rows of x that share what they unpack, and rows of W that share the activations they load: what
// 14 registers hold.
constexpr size_t kPair = 2;
constexpr size_t rows_of_w(size_t rows_of_x) { return rows_of_x == 1 ? 4 : 2; }

// Activations of one group, a word each.
struct Group {
  Pairs words[kWordsPerGroup];
};

void widen_group(const int8_t* x, Group* group) {
#pragma GCC unroll 8
  for (size_t i = 0; i < kWordsPerGroup; ++i) {
    group->words[i] = widen(load_word(x + i * kWordBytes));
  }
}

int16x2_t nibbles(uint32_t word, int shift, uint32_t mask) {
  return static_cast<int16x2_t>(word >> shift & mask);
}

struct Int4 {
  static constexpr size_t kLines = kBlockLines;
  static void arrange(Group* /*group*/) {}

  // Byte i of a word of line j holds inputs 4 * j + i and, above, 4 * (j + 4) + i.
  // One row of x: its pairs stay in registers while words of W pass.
  template <size_t kWide>
  static void add_line(const uint8_t* line, uint32_t mask, const Group* x, size_t j,
                       int32_t (&sums)[1][kWide]) {
    const Pairs low = x->words[j];
    const Pairs high = x->words[j + kBlockLines];
#pragma GCC unroll 4
    for (size_t q = 0; q < kWide; ++q) {
      const uint32_t word = load_word(line + q * kWordBytes);
      int32_t sum = __smlad(nibbles(word, 0, mask), low.even, sums[0][q]);
      sum = __smlad(nibbles(word, 4, mask), high.even, sum);
      sum = __smlad(nibbles(word, 8, mask), low.odd, sum);
      sums[0][q] = __smlad(nibbles(word, 12, mask), high.odd, sum);
    }
  }

  static void add_products(int16x2_t w0, int16x2_t w1, int16x2_t x0, int16x2_t x1,
                           int32_t (&sums)[kPair][kPair]) {
    sums[0][0] = __smlad(w0, x0, sums[0][0]);
    sums[0][1] = __smlad(w1, x0, sums[0][1]);
    sums[1][0] = __smlad(w0, x1, sums[1][0]);
    sums[1][1] = __smlad(w1, x1, sums[1][1]);
  }

  // Two: words of W stay in registers while pairs pass.
  static void add_line(const uint8_t* line, uint32_t mask, const Group* x, size_t j,
                       int32_t (&sums)[kPair][kPair]) {
    const uint32_t w0 = load_word(line);
    const uint32_t w1 = load_word(line + kWordBytes);
    const Pairs* x0 = &x[0].words[j];
    const Pairs* x1 = &x[1].words[j];
    add_products(nibbles(w0, 0, mask), nibbles(w1, 0, mask), x0[0].even, x1[0].even, sums);
    add_products(nibbles(w0, 4, mask), nibbles(w1, 4, mask), x0[kBlockLines].even,
                 x1[kBlockLines].even, sums);
    add_products(nibbles(w0, 8, mask), nibbles(w1, 8, mask), x0[0].odd, x1[0].odd, sums);
    add_products(nibbles(w0, 12, mask), nibbles(w1, 12, mask), x0[kBlockLines].odd,
                 x1[kBlockLines].odd, sums);
  }

  template <size_t kRows, size_t kWide>
  static void dots(const uint8_t* codes, const Group* x, const int32_t (&x_sums)[kRows],
                   int32_t (&sums)[kRows][kWide]) {
    // A mask that the compiler knows becomes an immediate, and the shift that could be part of the
    // AND an instruction more.
    const uint32_t mask = in_register(kNibblePairs);
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (size_t q = 0; q < kWide; ++q) sums[r][q] = -kNibbleZero * x_sums[r];
    }
#pragma GCC unroll 4
    for (size_t j = 0; j < kLines; ++j) {
      add_line(codes + j * kLineBytes, mask, x, j, sums);
    }
  }
  // Scales of the group's lines of rows; bf16 is the upper half of a float.
  static float scale(const uint8_t* scales, size_t row) {
    uint16_t half;
    std::memcpy(&half, scales + row * sizeof half, sizeof half);
    return __builtin_bit_cast(float, uint32_t{half} << 16);
  }
};

// What both codes of a byte of int4nl stand for: the low one's value, and above it the high one's.
struct NlPairs {
  uint32_t of_byte[1 << 8];
};

consteval NlPairs make_nl_pairs() {
  constexpr uint32_t kLowHalf = 0xffff;
  constexpr uint32_t kLowNibble = 0x0f;
  NlPairs table = {};
  for (uint32_t byte = 0; byte < std::size(table.of_byte); ++byte) {
    const auto low = static_cast<uint32_t>(int32_t{kInt4NlValues[byte & kLowNibble]});
    const auto high = static_cast<uint32_t>(int32_t{kInt4NlValues[byte >> 4]});
    table.of_byte[byte] = (low & kLowHalf) | high << 16;
  }
  return table;
}

constexpr NlPairs kNlPairs = make_nl_pairs();

// A byte of W is one load from the table, and a pair of inputs 16 apart.
struct Int4Nl {
  static constexpr size_t kLines = kBlockLines;

  // The pairs of words j and j + kBlockLines, as the bytes of line j pair them: inputs i and i + 2
  // come first.
  static void arrange(Group* group) {
#pragma GCC unroll 4
    for (size_t j = 0; j < kBlockLines; ++j) {
      const Pairs low = group->words[j];
      const Pairs high = group->words[j + kBlockLines];
      group->words[j] = {low_halves(low.even, high.even), high_halves(low.even, high.even)};
      group->words[j + kBlockLines] = {low_halves(low.odd, high.odd),
                                       high_halves(low.odd, high.odd)};
    }
  }

  static int16x2_t values_at(const uint8_t* byte, const uint32_t* table) {
    return static_cast<int16x2_t>(table[*byte]);
  }

  template <size_t kRows, size_t kWide>
  static void dots(const uint8_t* codes, const Group* x, const int32_t (&/*x_sums*/)[kRows],
                   int32_t (&sums)[kRows][kWide]) {
    const uint32_t* table = in_register(&kNlPairs.of_byte[0]);
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (size_t q = 0; q < kWide; ++q) sums[r][q] = 0;
    }
#pragma GCC unroll 4
    for (size_t j = 0; j < kLines; ++j) {
#pragma GCC unroll 4
      for (size_t q = 0; q < kWide; ++q) {
        const uint8_t* word = codes + j * kLineBytes + q * kWordBytes;
        const int16x2_t w[kWordBytes] = {values_at(word, table), values_at(word + 1, table),
                                         values_at(word + 2, table), values_at(word + 3, table)};
#pragma GCC unroll 4
        for (size_t r = 0; r < kRows; ++r) {
          const Pairs& even = x[r].words[j];
          const Pairs& odd = x[r].words[j + kBlockLines];
          int32_t sum = __smlad(w[0], even.even, sums[r][q]);
          sum = __smlad(w[1], odd.even, sum);
          sum = __smlad(w[2], even.odd, sum);
          sums[r][q] = __smlad(w[3], odd.odd, sum);
        }
      }
    }
  }
  static float scale(const uint8_t* scales, size_t row) { return Int4::scale(scales, row); }
};

struct Int8 {
  static constexpr size_t kLines = kWordsPerGroup;
  static void arrange(Group* /*group*/) {}

  template <size_t kRows, size_t kWide>
  static void dots(const uint8_t* codes, const Group* x, const int32_t (&/*x_sums*/)[kRows],
                   int32_t (&sums)[kRows][kWide]) {
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (size_t q = 0; q < kWide; ++q) sums[r][q] = 0;
    }
#pragma GCC unroll 8
    for (size_t j = 0; j < kLines; ++j) {
#pragma GCC unroll 4
      for (size_t q = 0; q < kWide; ++q) {
        const uint32_t word = load_word(codes + (j * kLineWords + q) * kWordBytes);
#pragma GCC unroll 4
        for (size_t r = 0; r < kRows; ++r) {
          sums[r][q] = add_bytes(word, x[r].words[j], sums[r][q]);
        }
      }
    }
  }
  static float scale(const uint8_t* scales, size_t row) {
    return __builtin_bit_cast(float, load_word(scales + row * sizeof(float)));
  }
};

struct Int8G32 : Int8 {
  static float scale(const uint8_t* scales, size_t row) { return Int4::scale(scales, row); }
};

// A tile times rows i ... i + kRows - 1 of x; W is read once, in the order in which it lies.
template <class Weights, size_t kRows>
void multiply_tile(const ProductCall& call, const uint8_t* codes, const uint8_t* scales, size_t i,
                   float (&acc)[kRows][kTileRows]) {
  constexpr size_t kWide = rows_of_w(kRows);
#pragma GCC unroll 4
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t row = 0; row < kTileRows; ++row) acc[r][row] = 0.0f;
  }
  size_t left = call.groups_per_scale;
  for (size_t g = 0; g < call.n_groups; ++g, codes += Weights::kLines * kLineBytes) {
    Group x[kRows];
    int32_t x_sums[kRows];
    float x_scales[kRows];
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) {
      widen_group(call.x.codes + (i + r) * call.cols + g * kActivationGroup, &x[r]);
      Weights::arrange(&x[r]);
      x_sums[r] = call.x.sums[(i + r) * call.n_groups + g];
      x_scales[r] = call.x.scales[(i + r) * call.n_groups + g];
    }
    for (size_t row = 0; row < kTileRows; row += kWide) {
      int32_t sums[kRows][kWide];
      // Of an address that it knows it would move activations to many places of the stack before
      // the loop, instead of reading them in pairs.
      const Group* groups = in_register(&x[0]);
      Weights::dots(codes + row * kWordBytes, groups, x_sums, sums);
#pragma GCC unroll 4
      for (size_t q = 0; q < kWide; ++q) {
        const float w_scale = Weights::scale(scales, row + q);
#pragma GCC unroll 4
        for (size_t r = 0; r < kRows; ++r) {
          acc[r][row + q] += static_cast<float>(sums[r][q]) * (w_scale * x_scales[r]);
        }
      }
    }
    if (--left == 0) {
      left = call.groups_per_scale;
      scales += call.scale_step;
    }
  }
}

template <class Weights>
struct Product {
  static constexpr size_t kBlockRows = kPair;

  template <size_t kRows>
  static void multiply_rows(const ProductCall& call, const uint8_t* codes, const uint8_t* scales,
                            size_t i, size_t n_rows, float* y, size_t y_stride) {
    float acc[kRows][kTileRows];
    multiply_tile<Weights, kRows>(call, codes, scales, i, acc);
#pragma GCC unroll 4
    for (size_t r = 0; r < kRows; ++r) {
      std::memcpy(y + (i + r) * y_stride, acc[r], n_rows * sizeof(float));
    }
  }
};

void matmul_q4_q8_dsp(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                      size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                      size_t y_stride) {
  multiply_by_blocks<Product<Int4>>(shape, codes, scales, first_tile, last_tile, x, y, y_stride);
}

void matmul_q4nl_q8_dsp(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                        size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                        size_t y_stride) {
  multiply_by_blocks<Product<Int4Nl>>(shape, codes, scales, first_tile, last_tile, x, y, y_stride);
}

void matmul_q8_q8_dsp(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                      size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                      size_t y_stride) {
  multiply_by_blocks<Product<Int8>>(shape, codes, scales, first_tile, last_tile, x, y, y_stride);
}

void matmul_q8g_q8_dsp(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                       size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                       size_t y_stride) {
  multiply_by_blocks<Product<Int8G32>>(shape, codes, scales, first_tile, last_tile, x, y, y_stride);
}

}  // namespace

void override_dsp(Kernels* table, uint32_t /*isa_mask*/) {
  table->products.of[place_of(format::NumberFormat::kInt4)].codes = matmul_q4_q8_dsp;
  table->products.of[place_of(format::NumberFormat::kInt4Nl)].codes = matmul_q4nl_q8_dsp;
  table->products.of[place_of(format::NumberFormat::kInt8)].codes = matmul_q8_q8_dsp;
  table->products.of[place_of(format::NumberFormat::kInt8G32)].codes = matmul_q8g_q8_dsp;
  table->scores_q8 = scores_q8_dsp;
}

}  // namespace cria
