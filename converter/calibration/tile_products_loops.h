// The loops of tile_products.h, for a vector type. What a version is compiled with may not run
// elsewhere, so nothing here may become a function that versions share: all is inlined, or has the
// vector type in its name.
//
// Vector: Register (a part of 16 floats), kRegisters of them, kMostRows whose sums fit the
// processor's registers; zero, load (of float and uint16_t), store, broadcast, fused_add.
#pragma once

#include "converter/calibration/tile_products.h"

namespace cria::converter {

#define CRIA_TILE_INLINE [[gnu::always_inline]] static inline

template <class Vector, size_t kRows, typename Element>
struct TileRows {
  CRIA_TILE_INLINE void add(const float* left, size_t left_step, const Element* right, size_t n,
                            float* sums, size_t sums_stride) {
    constexpr size_t kWidth = kTile / Vector::kRegisters;
    typename Vector::Register acc[kRows][Vector::kRegisters];
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (size_t i = 0; i < Vector::kRegisters; ++i) {
        Vector::load(sums + r * sums_stride + i * kWidth, &acc[r][i]);
      }
    }
    for (size_t k = 0; k < n; ++k) {
      typename Vector::Register row[Vector::kRegisters];
#pragma GCC unroll 16
      for (size_t i = 0; i < Vector::kRegisters; ++i) {
        Vector::load(right + k * kTile + i * kWidth, &row[i]);
      }
#pragma GCC unroll 16
      for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
        for (size_t i = 0; i < Vector::kRegisters; ++i) {
          Vector::fused_add(row[i], left[k * left_step + r], &acc[r][i]);
        }
      }
    }
#pragma GCC unroll 16
    for (size_t r = 0; r < kRows; ++r) {
#pragma GCC unroll 16
      for (size_t i = 0; i < Vector::kRegisters; ++i) {
        Vector::store(acc[r][i], sums + r * sums_stride + i * kWidth);
      }
    }
  }
};

template <class Vector>
struct TileLoops {
  template <typename Element>
  static void add(const float* left, size_t left_step, size_t n_left, const Element* right,
                  size_t n, float* sums, size_t sums_stride) {
    size_t row = 0;
    add_parts<Vector::kMostRows>(left, left_step, n_left, right, n, sums, sums_stride, &row);
    add_parts<4>(left, left_step, n_left, right, n, sums, sums_stride, &row);
    add_parts<2>(left, left_step, n_left, right, n, sums, sums_stride, &row);
    add_parts<1>(left, left_step, n_left, right, n, sums, sums_stride, &row);
  }

  static TileProducts table(const char* name) { return {name, add<float>, add<uint16_t>}; }

 private:
  // As many times kRows rows as are left.
  template <size_t kRows, typename Element>
  CRIA_TILE_INLINE void add_parts(const float* left, size_t left_step, size_t n_left,
                                  const Element* right, size_t n, float* sums, size_t sums_stride,
                                  size_t* row) {
    for (; *row + kRows <= n_left; *row += kRows) {
      TileRows<Vector, kRows, Element>::add(left + *row, left_step, right, n,
                                            sums + *row * sums_stride, sums_stride);
    }
  }
};

}  // namespace cria::converter
