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
//   zero()
//   look_up(v)       kInt4NlValues + kInt4NlLargest of nibbles, bytes
//   Int4Dot, Int8Dot, Int4NlDot: add(sum, first, second, x_first, x_second) adds products of bytes,
//       finish(sum, x_sum) gives the integer dot product of a group; Int4Dot's weights are code +
//       8, Int8Dot's are codes, Int4NlDot's are what look_up gives
//   load_f32(p), load_f16(p), load_bf16(p), all(x), to_floats(ints), add(a, b), multiply(a, b),
//   store(p, v)
#pragma once

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
  size_t groups_per_scale;
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
  // Parts and rows of a block: with their sums, what 16 registers hold.
  static constexpr size_t kBlockParts = 2;
  static constexpr size_t kBlockRows = 3;

  struct Int4 {
    using Dot = typename Part::Int4Dot;
    static constexpr size_t kGroupBytes = 256;
    static void pair(const uint8_t* p, size_t j, Ints* first, Ints* second) {
      const Ints line = Part::load(p + j * kLineBytes);
      *first = Part::low_nibbles(line);
      *second = Part::high_nibbles(line);
    }
    static Floats scale(const TileProduct& p, const uint8_t* part, size_t group) {
      return Part::load_bf16(part + group / p.groups_per_scale * (kTileRows * 2));
    }
    static constexpr size_t kScaleBytes = 2;
  };

  struct Int4Nl : Int4 {
    using Dot = typename Part::Int4NlDot;
    static void pair(const uint8_t* p, size_t j, Ints* first, Ints* second) {
      Int4::pair(p, j, first, second);
      *first = Part::look_up(*first);
      *second = Part::look_up(*second);
    }
  };

  struct Int8 {
    using Dot = typename Part::Int8Dot;
    static constexpr size_t kGroupBytes = 512;
    static void pair(const uint8_t* p, size_t j, Ints* first, Ints* second) {
      *first = Part::load(p + j * kLineBytes);
      *second = Part::load(p + (j + 4) * kLineBytes);
    }
    static Floats scale(const TileProduct& /*p*/, const uint8_t* part, size_t /*group*/) {
      return Part::load_f32(part);
    }
    static constexpr size_t kScaleBytes = 4;
  };

  // A scale is for one group of activations.
  struct Int8G32 : Int8 {
    static Floats scale(const TileProduct& /*p*/, const uint8_t* part, size_t group) {
      return Part::load_bf16(part + group * (kTileRows * 2));
    }
    static constexpr size_t kScaleBytes = 2;
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

  static void fetch(const uint8_t* p, size_t n_bytes) {
    for (size_t i = 0; i < n_bytes; i += kLineBytes) __builtin_prefetch(p + i);
  }

  // Adds the products of group g, whose part of the codes begins at codes.
  template <class Weights, size_t kParts, size_t kRows>
  [[gnu::always_inline]] static void dot_group(const int8_t* const (&x)[kRows],
                                               const uint8_t* codes, Ints (&sums)[kRows][kParts]) {
#pragma GCC unroll 4
    for (size_t j = 0; j < kQuads / 2; ++j) {
#pragma GCC unroll 4
      for (size_t t = 0; t < kParts; ++t) {
        Ints first, second;
        Weights::pair(codes + t * kPartBytes, j, &first, &second);
#pragma GCC unroll 4
        for (size_t r = 0; r < kRows; ++r) {
          const Ints x_first = Part::broadcast(x[r], j);
          const Ints x_second = Part::broadcast(x[r] + kActivationGroup / 2, j);
          sums[r][t] = Weights::Dot::add(sums[r][t], first, second, x_first, x_second);
        }
      }
    }
  }

  // Parts [part, part + kParts) of a tile times rows [row, row + kRows).
  template <class Weights, size_t kParts, size_t kRows>
  static void multiply_block(const TileProduct& p, size_t tile, size_t part, size_t row) {
    const uint8_t* codes = p.codes + tile * p.tile_code_bytes + part * kPartBytes;
    const uint8_t* scales =
        p.scales + tile * p.tile_scale_bytes + part * Part::kRows * Weights::kScaleBytes;
    Floats acc[kRows][kParts];
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t t = 0; t < kParts; ++t) acc[r][t] = Part::all(0.0f);
    }
    for (size_t g = 0; g < p.n_groups; ++g) {
      const uint8_t* group = codes + g * Weights::kGroupBytes;
      if constexpr (kRows == 1) {
        if (g % (kFetchBurst / Weights::kGroupBytes) == 0) fetch(group + kFetchAhead, kFetchBurst);
      }
      const int8_t* x[kRows];
      Ints sums[kRows][kParts];
#pragma GCC unroll 4
      for (size_t r = 0; r < kRows; ++r) {
        x[r] = p.x + ((row + r) * p.n_groups + g) * kActivationGroup;
#pragma GCC unroll 4
        for (size_t t = 0; t < kParts; ++t) sums[r][t] = Part::zero();
      }
      dot_group<Weights>(x, group, sums);
#pragma GCC unroll 4
      for (size_t t = 0; t < kParts; ++t) {
        const Floats scale = Weights::scale(p, scales + t * Part::kRows * Weights::kScaleBytes, g);
#pragma GCC unroll 4
        for (size_t r = 0; r < kRows; ++r) {
          const size_t at = (row + r) * p.n_groups + g;
          const Floats dot = Part::to_floats(Weights::Dot::finish(sums[r][t], p.x_sums[at]));
          const Floats both = Part::multiply(scale, Part::all(p.x_scales[at]));
          acc[r][t] = Part::add(acc[r][t], Part::multiply(dot, both));
        }
      }
    }
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t t = 0; t < kParts; ++t) {
        store_part(p, row + r, tile * kTileRows + (part + t) * Part::kRows, acc[r][t]);
      }
    }
  }

  template <class Weights>
  static void multiply_rows(const TileProduct& p, size_t tile, size_t part, size_t n_rows) {
    size_t row = 0;
    for (; row + kBlockRows <= n_rows; row += kBlockRows) {
      multiply_block<Weights, kBlockParts, kBlockRows>(p, tile, part, row);
    }
    for (; row + 2 <= n_rows; row += 2) multiply_block<Weights, kBlockParts, 2>(p, tile, part, row);
    if (row < n_rows) multiply_block<Weights, kBlockParts, 1>(p, tile, part, row);
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
        .groups_per_scale = shape.group_size / kActivationGroup,
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
        multiply_block<Weights, kAllParts, 1>(p, tile, 0, 0);
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
      __builtin_prefetch(line + kFetchAhead);
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
    table->matmul_q4_q8 = matmul<Int4>;
    table->matmul_q4nl_q8 = matmul<Int4Nl>;
    table->matmul_q8_q8 = matmul<Int8>;
    table->matmul_q8g_q8 = matmul<Int8G32>;
  }
  static void fill_float(Kernels* table) {
    table->matmul_f32_f32 = matmul_float<F32>;
    table->matmul_f16_f32 = matmul_float<F16>;
    table->matmul_bf16_f32 = matmul_float<Bf16>;
  }
};

}  // namespace cria
