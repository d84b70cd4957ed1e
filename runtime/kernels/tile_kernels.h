// Matrix products for vectors narrower than a tile's 16 rows, written once over a type that each
// ISA's file brings. Contracts are in runtime/kernels/kernels.h.
//
// A part is the rows of a tile that fill one register: Part::kRows of them. Part is a type of the
// anonymous namespace of that file, so everything here gets internal linkage
// (runtime/kernels/overrides.h says why that matters). It has:
//   Ints, Floats                         registers of Part::kRows lanes; Ints also of bytes
//   load(p), low_nibbles(v), high_nibbles(v)   bytes
//   broadcast(p, j)                      activations p[4j..4j + 3] in every lane, j < 4; may read
//                                        p[0..15]
//   kFetchesAtPages  whether one row asks for quantized weights at pages, as weight_fetch.h says
//   kFetchAhead      else how far ahead it asks by groups
//   look_up(v)       kInt4NlValues + kInt4NlLargest of nibbles, bytes
//   Int4Dot, Int8Dot, Int4NlDot: how products of bytes are summed. Int4Dot's weights are codes + 8,
//   Int8Dot's are codes, Int4NlDot's are what look_up gives:
//     kRows          rows of x in a block: with those of two parts, sums that 16 registers hold
//     kStep          quads of inputs that add takes at once: 1 or 2
//     kOffset        what weights have too much; a group's start is -kOffset times the sum of x
//     begin(start), add(sum, weights, x), finish(sum, start)   the integer dot product of a group
//     kTakesHighNibbles   of Int4Dot: whether its weights may be 16 times as large; then Part has
//                    high_nibbles_in_place(v), shift_right_4(v) and add(a, b) of 32-bit integers
//   BitDot<kBits>   the same of bit1 and bit2, whose weights are codes of so many bits; it also has
//     finish(even, odd, shift, start)   the dot product where even sums codes times 2^shift, odd
//                    those times 2^(shift + kBits)
//     kMostBits      codes may be so many bits up in their byte, 4 or 8
//   all_bytes(b), and_bytes(v, mask), shift_bits(v, n)   bytes; the last one moves v by n bits
//                    down, and any bits into the uppermost
//   load_bf16(p, first, second)      of two neighbouring parts
//   load_f32(p), load_f16(p), load_bf16(p), all(x), to_floats(ints), add(a, b), multiply(a, b),
//   store(p, v), all_ints(x)
#pragma once

#include <bit>

#include "runtime/kernels/kernels.h"
#include "runtime/kernels/weight_fetch.h"

namespace cria {

// One call's matrix, activations and output.
struct TileProduct {
  const uint8_t* codes;
  const uint8_t* scales;
  size_t tile_code_bytes;
  size_t tile_scale_bytes;
  size_t n_groups;
  size_t scale_shift;  // log2 of the groups that a scale is for
  size_t rows;
  const int8_t* x;
  const float* x_scales;
  const int32_t* x_sums;
  size_t cols;
  const float* x_floats;
  float* y;
  size_t y_stride;
};

template <class Part>
struct TileKernels {
  using Ints = typename Part::Ints;
  using Floats = typename Part::Floats;

  static constexpr size_t kQuads = kActivationGroup / 4;
  static constexpr size_t kPartBytes = Part::kRows * 4;  // of a line of 64
  static constexpr size_t kAllParts = kTileRows / Part::kRows;
  static constexpr size_t kBlockParts = 2;    // of a tile, that a block of rows meets at once
  static constexpr size_t kBlockGroups = 64;  // groups whose starting sums are prepared together

  // Weights: quad(p, q, place) gives inputs 4q ... 4q + 3 of a group, scales those of kParts parts
  // at p; a group's are scales_at(group, shift) bytes after its tile's first. Codes of
  // kGroupsOfBlock groups, each at a place, are in one block of kGroupBytes at p, with one scale.
  struct Int4 {
    using Dot = typename Part::Int4Dot;
    static constexpr size_t kGroupsOfBlock = 1;
    static constexpr size_t kGroupBytes = 256;
    static constexpr size_t kScaleBytes = 2;
    static constexpr size_t kGroupScaleBytes = kTileRows * kScaleBytes;  // 0: a row has one scale
    static constexpr bool kIsNibbles = true;
    static Ints quad(const uint8_t* p, size_t q, size_t /*place*/) {
      const Ints line = Part::load(p + q % (kQuads / 2) * kLineBytes);
      return q < kQuads / 2 ? Part::low_nibbles(line) : Part::high_nibbles(line);
    }
    static size_t scales_at(size_t group, size_t shift) {
      return (group >> shift) * kGroupScaleBytes;
    }
    template <size_t kParts>
    [[gnu::always_inline]] static void scales(const uint8_t* p, Floats (&result)[kParts]) {
#pragma GCC unroll 4
      for (size_t t = 0; t < kParts; t += 2) {
        Part::load_bf16(p + t * Part::kRows * kScaleBytes, &result[t], &result[t + 1]);
      }
    }
  };

  struct Int4Nl : Int4 {
    using Dot = typename Part::Int4NlDot;
    static constexpr bool kIsNibbles = false;
    static Ints quad(const uint8_t* p, size_t q, size_t place) {
      return Part::look_up(Int4::quad(p, q, place));
    }
  };

  struct Int8 {
    using Dot = typename Part::Int8Dot;
    static constexpr size_t kGroupsOfBlock = 1;
    static constexpr size_t kGroupBytes = 512;
    static constexpr size_t kScaleBytes = 4;
    static constexpr size_t kGroupScaleBytes = 0;
    static constexpr bool kIsNibbles = false;
    static Ints quad(const uint8_t* p, size_t q, size_t /*place*/) {
      return Part::load(p + q * kLineBytes);
    }
    static size_t scales_at(size_t /*group*/, size_t /*shift*/) { return 0; }
    template <size_t kParts>
    [[gnu::always_inline]] static void scales(const uint8_t* p, Floats (&result)[kParts]) {
#pragma GCC unroll 4
      for (size_t t = 0; t < kParts; ++t) {
        result[t] = Part::load_f32(p + t * Part::kRows * kScaleBytes);
      }
    }
  };

  // A scale is for one group of activations.
  struct Int8G32 : Int8 {
    static constexpr size_t kScaleBytes = Int4::kScaleBytes;
    static constexpr size_t kGroupScaleBytes = Int4::kGroupScaleBytes;
    static size_t scales_at(size_t group, size_t /*shift*/) { return group * kGroupScaleBytes; }
    template <size_t kParts>
    [[gnu::always_inline]] static void scales(const uint8_t* p, Floats (&result)[kParts]) {
      Int4::template scales<kParts>(p, result);
    }
  };

  // kBits of a code: 1 or 2. Places go from the lowest bits up: of each line a quad, and above it
  // another.
  template <size_t kBits>
  struct Bits {
    using Dot = typename Part::template BitDot<kBits>;
    static constexpr size_t kCodeBits = kBits;
    static constexpr size_t kGroupsOfBlock = 8 / (2 * kBits);
    static constexpr size_t kGroupBytes = 256;  // a block's
    static constexpr size_t kScaleBytes = 2;
    static constexpr size_t kGroupScaleBytes = kTileRows * kScaleBytes;
    static constexpr bool kIsNibbles = false;
    static Ints quad(const uint8_t* p, size_t q, size_t place) {
      const Ints line = Part::load(p + q % (kQuads / 2) * kLineBytes);
      const size_t shift = (2 * place + q / (kQuads / 2)) * kBits;
      return Part::and_bytes(Part::shift_bits(line, shift), Part::all_bytes((1 << kBits) - 1));
    }
    static size_t scales_at(size_t group, size_t /*shift*/) {
      return group / kGroupsOfBlock * kGroupScaleBytes;
    }
    template <size_t kParts>
    [[gnu::always_inline]] static void scales(const uint8_t* p, Floats (&result)[kParts]) {
#pragma GCC unroll 4
      for (size_t t = 0; t < kParts; ++t) {
        result[t] = Part::load_f16(p + t * Part::kRows * kScaleBytes);
      }
    }
  };

  struct F32 {
    static constexpr size_t kBytes = 4;
    static Floats load(const uint8_t* p) { return Part::load_f32(p); }
  };
  struct F16 {
    static constexpr size_t kBytes = 2;
    static Floats load(const uint8_t* p) { return Part::load_f16(p); }
  };
  struct Bf16 {
    static constexpr size_t kBytes = 2;
    static Floats load(const uint8_t* p) { return Part::load_bf16(p); }
  };

  static void store_part(const TileProduct& p, size_t row, size_t first, Floats value) {
    if (first >= p.rows) return;
    float* y = p.y + row * p.y_stride + first;
    const size_t left = p.rows - first;
    if (left >= Part::kRows) return Part::store(y, value);
    float part[Part::kRows];
    Part::store(part, value);
    for (size_t i = 0; i < left; ++i) y[i] = part[i];
  }

  [[gnu::always_inline]] static void fetch(const uint8_t* p, size_t n_bytes) {
#pragma GCC unroll 8
    for (size_t i = 0; i < n_bytes; i += kLineBytes) __builtin_prefetch(p + i);
  }

  // Adds the products of the group at a place of the block whose part of the codes begins at codes.
  template <class Weights, size_t kParts, size_t kRows>
  [[gnu::always_inline]] static void dot_group(const int8_t* const (&x)[kRows],
                                               const uint8_t* codes, size_t place,
                                               Ints (&sums)[kRows][kParts]) {
    constexpr size_t kStep = Weights::Dot::kStep;
#pragma GCC unroll 8
    for (size_t i = 0; i < kQuads; i += kStep) {
      size_t quads[kStep];  // a line's halves one after the other
      Ints weights[kParts][kStep];
#pragma GCC unroll 2
      for (size_t k = 0; k < kStep; ++k) {
        quads[k] = (i + k) / 2 + (i + k) % 2 * (kQuads / 2);
#pragma GCC unroll 4
        for (size_t t = 0; t < kParts; ++t) {
          weights[t][k] = Weights::quad(codes + t * kPartBytes, quads[k], place);
        }
      }
#pragma GCC unroll 8
      for (size_t r = 0; r < kRows; ++r) {
        Ints quads_of_x[kStep];
#pragma GCC unroll 2
        for (size_t k = 0; k < kStep; ++k) {
          quads_of_x[k] = Part::broadcast(x[r] + quads[k] / 4 * 16, quads[k] % 4);
        }
#pragma GCC unroll 4
        for (size_t t = 0; t < kParts; ++t) {
          sums[r][t] = Weights::Dot::add(sums[r][t], weights[t], quads_of_x);
        }
      }
    }
  }

  // The same for one row and nibbles of int4: high ones stay where they are.
  template <size_t kParts>
  [[gnu::always_inline]] static void dot_nibbles(const int8_t* x, const uint8_t* codes,
                                                 Ints (&sums)[kParts]) {
    using Dot = typename Part::Int4Dot;
    Ints high_sums[kParts];
#pragma GCC unroll 4
    for (size_t t = 0; t < kParts; ++t) high_sums[t] = Part::all_ints(0);
#pragma GCC unroll 4
    for (size_t j = 0; j < kQuads / 2; ++j) {
      const Ints x_low[] = {Part::broadcast(x, j)};
      const Ints x_high[] = {Part::broadcast(x + kActivationGroup / 2, j)};
#pragma GCC unroll 4
      for (size_t t = 0; t < kParts; ++t) {
        const Ints line = Part::load(codes + t * kPartBytes + j * kLineBytes);
        const Ints low[] = {Part::low_nibbles(line)};
        const Ints high[] = {Part::high_nibbles_in_place(line)};
        sums[t] = Dot::add(sums[t], low, x_low);
        high_sums[t] = Dot::add(high_sums[t], high, x_high);
      }
    }
#pragma GCC unroll 4
    for (size_t t = 0; t < kParts; ++t) {
      sums[t] = Part::add(sums[t], Part::shift_right_4(high_sums[t]));
    }
  }

  // The dot products of one row and the group at a place of a block of bits: codes stay where they
  // are in their bytes, or in their halves.
  template <class Weights, size_t kParts>
  [[gnu::always_inline]] static void dot_bits(const int8_t* x, const uint8_t* codes, size_t place,
                                              Ints start, Ints (&dots)[kParts]) {
    using Dot = typename Weights::Dot;
    constexpr size_t kBits = Weights::kCodeBits;
    constexpr int kMask = (1 << kBits) - 1;
    const size_t bit = place * 2 * kBits;
    const size_t shift = bit % Dot::kMostBits;
    const Ints even_mask = Part::all_bytes(kMask << shift);
    const Ints odd_mask = Part::all_bytes(kMask << (shift + kBits));
    Ints even[kParts];
    Ints odd[kParts];
#pragma GCC unroll 4
    for (size_t t = 0; t < kParts; ++t) even[t] = odd[t] = Part::all_ints(0);
#pragma GCC unroll 4
    for (size_t j = 0; j < kQuads / 2; ++j) {
      const Ints x_even[] = {Part::broadcast(x, j)};
      const Ints x_odd[] = {Part::broadcast(x + kActivationGroup / 2, j)};
#pragma GCC unroll 4
      for (size_t t = 0; t < kParts; ++t) {
        Ints line = Part::load(codes + t * kPartBytes + j * kLineBytes);
        if constexpr (Dot::kMostBits < 8) line = Part::shift_bits(line, bit - shift);
        const Ints even_codes[] = {Part::and_bytes(line, even_mask)};
        const Ints odd_codes[] = {Part::and_bytes(line, odd_mask)};
        even[t] = Dot::add(even[t], even_codes, x_even);
        odd[t] = Dot::add(odd[t], odd_codes, x_odd);
      }
    }
#pragma GCC unroll 4
    for (size_t t = 0; t < kParts; ++t) {
      dots[t] = Dot::finish(even[t], odd[t], shift, start);
    }
  }

  // The starting sums of groups [begin, end) of rows [row, row + kRows).
  template <class Dot, size_t kRows>
  [[gnu::always_inline]] static void prepare_starts(const TileProduct& p, size_t row, size_t begin,
                                                    size_t end,
                                                    int32_t (&starts)[kRows][kBlockGroups]) {
    if constexpr (Dot::kOffset != 0) {
      for (size_t r = 0; r < kRows; ++r) {
        const int32_t* const sums = p.x_sums + (row + r) * p.n_groups + begin;
        for (size_t g = 0; g < end - begin; ++g) starts[r][g] = -Dot::kOffset * sums[g];
      }
    }
  }

  // What a block of several rows asks for of each group of the next tile: lines [first, last). All
  // blocks that meet a tile together ask for all of the next.
  struct NextLines {
    size_t first;
    size_t last;
  };

  template <class Weights>
  static NextLines next_lines(size_t block, size_t n_blocks) {
    constexpr size_t kLines = Weights::kGroupBytes / kLineBytes;
    return {block * kLines / n_blocks, (block + 1) * kLines / n_blocks};
  }

  // Parts [part, part + kParts) of a tile times rows [row, row + kRows).
  template <class Weights, size_t kParts, size_t kRows>
  static void multiply_block(const TileProduct& p, size_t tile, size_t part, size_t row,
                             const NextLines& next) {
    using Dot = typename Weights::Dot;
    constexpr bool kAreBits = Weights::kGroupsOfBlock > 1;
    const uint8_t* group = p.codes + tile * p.tile_code_bytes + part * kPartBytes;
    const uint8_t* const scales =
        p.scales + tile * p.tile_scale_bytes + part * Part::kRows * Weights::kScaleBytes;
    const int8_t* x[kRows];
    const float* x_scales[kRows];
    Floats acc[kRows][kParts];
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
      x[r] = p.x + (row + r) * p.n_groups * kActivationGroup;
      x_scales[r] = p.x_scales + (row + r) * p.n_groups;
#pragma GCC unroll 4
      for (size_t t = 0; t < kParts; ++t) acc[r][t] = Part::all(0.0f);
    }
    for (size_t begin = 0; begin < p.n_groups; begin += kBlockGroups) {
      const size_t end = begin + kBlockGroups < p.n_groups ? begin + kBlockGroups : p.n_groups;
      int32_t starts[kRows][kBlockGroups];
      Floats scale[kParts];
      // The first group of each block loads its scales; that a block begins here GCC does not know.
      if constexpr (kAreBits) {
        for (Floats& none : scale) none = Part::all(0.0f);
      }
      prepare_starts<Dot>(p, row, begin, end, starts);
      for (size_t g = begin; g < end; ++g) {
        const uint8_t* const group_scales = scales + Weights::scales_at(g, p.scale_shift);
        const size_t place = g % Weights::kGroupsOfBlock;
        if (place != 0) {
          // Its block was asked for.
        } else if constexpr (kRows == 1 && Part::kFetchesAtPages) {
          fetch_next_page(group, Weights::kGroupBytes, kPageLines);
          fetch_next_page(group_scales, Weights::kGroupScaleBytes, kScalePageLines);
        } else if constexpr (kRows == 1) {
          fetch(group + Part::kFetchAhead, Weights::kGroupBytes);
          if constexpr (Weights::kGroupScaleBytes > 0) {
            __builtin_prefetch(group_scales + scales_ahead(Part::kFetchAhead, Weights::kGroupBytes,
                                                           Weights::kGroupScaleBytes));
          }
        } else {
          for (size_t line = next.first; line < next.last; ++line) {
            __builtin_prefetch(group + p.tile_code_bytes + line * kLineBytes);
          }
        }
        Ints start[kRows];
        Ints sums[kRows][kParts];
#pragma GCC unroll 8
        for (size_t r = 0; r < kRows; ++r) {
          start[r] = Part::all_ints(Dot::kOffset == 0 ? 0 : starts[r][g - begin]);
#pragma GCC unroll 4
          for (size_t t = 0; t < kParts; ++t) sums[r][t] = Dot::begin(start[r]);
        }
        if constexpr (kRows == 1 && kAreBits) {
          dot_bits<Weights>(x[0], group, place, start[0], sums[0]);
        } else if constexpr (kRows == 1 && Weights::kIsNibbles &&
                             Part::Int4Dot::kTakesHighNibbles) {
          dot_nibbles<kParts>(x[0], group, sums[0]);
        } else {
          dot_group<Weights>(x, group, place, sums);
        }
        if (place == 0) Weights::template scales<kParts>(group_scales, scale);
        if (place + 1 == Weights::kGroupsOfBlock) group += Weights::kGroupBytes;
#pragma GCC unroll 8
        for (size_t r = 0; r < kRows; ++r) {
          const Floats x_scale = Part::all(x_scales[r][g]);
          x[r] += kActivationGroup;
#pragma GCC unroll 4
          for (size_t t = 0; t < kParts; ++t) {
            const Floats dot = Part::to_floats(
                kRows == 1 && kAreBits ? sums[r][t] : Dot::finish(sums[r][t], start[r]));
            const Floats both = Part::multiply(scale[t], x_scale);
            acc[r][t] = Part::add(acc[r][t], Part::multiply(dot, both));
          }
        }
      }
    }
#pragma GCC unroll 8
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
      for (size_t t = 0; t < kParts; ++t) {
        store_part(p, row + r, tile * kTileRows + (part + t) * Part::kRows, acc[r][t]);
      }
    }
  }

  // Rows [row, row + n_rows), n_rows from 1 to kRows.
  template <class Weights, size_t kRows>
  static void multiply_rest(const TileProduct& p, size_t tile, size_t part, size_t row,
                            size_t n_rows, const NextLines& next) {
    if constexpr (kRows > 1) {
      if (n_rows < kRows) {
        return multiply_rest<Weights, kRows - 1>(p, tile, part, row, n_rows, next);
      }
    }
    multiply_block<Weights, kBlockParts, kRows>(p, tile, part, row, next);
  }

  template <class Weights>
  static void multiply_rows(const TileProduct& p, size_t tile, size_t part, size_t n_rows) {
    constexpr size_t kRows = Weights::Dot::kRows;
    const size_t n_blocks = (n_rows + kRows - 1) / kRows;
    for (size_t i = 0; i < n_blocks; ++i) {
      const size_t left = n_rows - i * kRows;
      const size_t block = part / kBlockParts * n_blocks + i;
      multiply_rest<Weights, kRows>(p, tile, part, i * kRows, left < kRows ? left : kRows,
                                    next_lines<Weights>(block, kAllParts / kBlockParts * n_blocks));
    }
  }

  template <class Weights>
  static void matmul(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                     size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                     size_t y_stride) {
    const TileProduct p = {
        .codes = codes,
        .scales = scales,
        .tile_code_bytes = tile_code_bytes(shape),
        .tile_scale_bytes = tile_scale_bytes(shape),
        .n_groups = padded_cols(shape) / kActivationGroup,
        .scale_shift = has_group_scales(shape.number_format)
                           ? static_cast<size_t>(
                                 std::countr_zero(shape.group_size / unsigned{kActivationGroup}))
                           : 0,
        .rows = shape.rows,
        .x = x.codes,
        .x_scales = x.scales,
        .x_sums = x.sums,
        .cols = shape.cols,
        .x_floats = nullptr,
        .y = y,
        .y_stride = y_stride,
    };
    for (size_t tile = first_tile; tile < last_tile; ++tile) {
      if (x.n_rows == 1) {
        multiply_block<Weights, kAllParts, 1>(p, tile, 0, 0, {});
        continue;
      }
      for (size_t part = 0; part < kAllParts; part += kBlockParts) {
        multiply_rows<Weights>(p, tile, part, x.n_rows);
      }
    }
  }

  // Rows [row, row + kRows) of a product with floats, a whole tile at once.
  template <class Weights, size_t kRows>
  static void multiply_float_block(const TileProduct& p, size_t tile, size_t row) {
    constexpr size_t kLine = kTileRows * Weights::kBytes;
    const uint8_t* codes = p.codes + tile * p.tile_code_bytes;
    const float* x = p.x_floats + row * p.cols;
    Floats acc[kRows][kAllParts];
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t t = 0; t < kAllParts; ++t) acc[r][t] = Part::all(0.0f);
    }
    for (size_t k = 0; k < p.cols; ++k) {
      const uint8_t* line = codes + k * kLine;
      __builtin_prefetch(line + kFetchFar);
#pragma GCC unroll 4
      for (size_t t = 0; t < kAllParts; ++t) {
        const Floats w = Weights::load(line + t * Part::kRows * Weights::kBytes);
#pragma GCC unroll 4
        for (size_t r = 0; r < kRows; ++r) {
          acc[r][t] = Part::add(acc[r][t], Part::multiply(w, Part::all(x[r * p.cols + k])));
        }
      }
    }
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t t = 0; t < kAllParts; ++t) {
        store_part(p, row + r, tile * kTileRows + t * Part::kRows, acc[r][t]);
      }
    }
  }

  template <class Weights>
  static void matmul_float(const MatrixShape& shape, const uint8_t* codes, size_t first_tile,
                           size_t last_tile, const float* x, size_t n_rows, float* y,
                           size_t y_stride) {
    // Twelve registers of sums, or fewer.
    constexpr size_t kRows = 12 / kAllParts < 4 ? 12 / kAllParts : 4;
    TileProduct p = {};
    p.codes = codes;
    p.tile_code_bytes = tile_code_bytes(shape);
    p.rows = shape.rows;
    p.cols = shape.cols;
    p.x_floats = x;
    p.y = y;
    p.y_stride = y_stride;
    for (size_t tile = first_tile; tile < last_tile; ++tile) {
      size_t row = 0;
      for (; row + kRows <= n_rows; row += kRows) {
        multiply_float_block<Weights, kRows>(p, tile, row);
      }
      for (; row < n_rows; ++row) multiply_float_block<Weights, 1>(p, tile, row);
    }
  }

  // Puts the products into the table: of integers, of floats.
  static void fill_integer(Kernels* table) {
    table->products.of[place_of(format::NumberFormat::kInt4)].codes = matmul<Int4>;
    table->products.of[place_of(format::NumberFormat::kInt4Nl)].codes = matmul<Int4Nl>;
    table->products.of[place_of(format::NumberFormat::kInt8)].codes = matmul<Int8>;
    table->products.of[place_of(format::NumberFormat::kInt8G32)].codes = matmul<Int8G32>;
    table->products.of[place_of(format::NumberFormat::kBit1)].codes = matmul<Bits<1>>;
    table->products.of[place_of(format::NumberFormat::kBit2)].codes = matmul<Bits<2>>;
  }
  static void fill_float(Kernels* table) {
    table->products.of[place_of(format::NumberFormat::kF32)].floats = matmul_float<F32>;
    table->products.of[place_of(format::NumberFormat::kF16)].floats = matmul_float<F16>;
    table->products.of[place_of(format::NumberFormat::kBf16)].floats = matmul_float<Bf16>;
  }
};

}  // namespace cria
