// The product that calibration's work is made of: a tile of 16 x 16 sums of products, compiled for
// what processors have. Each sum takes its products in ascending order of k, and each step is one
// fused multiply-add, rounded once (IEEE 754): all versions give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cria::converter {

inline constexpr size_t kTile = 16;

// sums[i][j] += left[k][i] * right[k][j], k from 0 to n - 1, for i < n_left and all 16 j.
//   left   [n][left_step], of which n_left (1 to 16) columns are read
//   right  [n][16]; bf16 or f32
//   sums   [n_left][sums_stride]
template <typename Element>
using TileProduct = void (*)(const float* left, size_t left_step, size_t n_left,
                             const Element* right, size_t n, float* sums, size_t sums_stride);

struct TileProducts {
  const char* name;
  TileProduct<float> floats;
  TileProduct<uint16_t> halves;
};

// Those that this machine runs, the fastest first. The last one runs everywhere.
[[nodiscard]] std::span<const TileProducts> all_tile_products();
[[nodiscard]] inline const TileProducts& tile_products() { return all_tile_products().front(); }

// One a file, compiled with its instructions: to be called only where the processor has them.
[[nodiscard]] TileProducts tile_products_avx512f();
[[nodiscard]] TileProducts tile_products_fma();
[[nodiscard]] TileProducts tile_products_neon();
[[nodiscard]] TileProducts tile_products_portable();

}  // namespace cria::converter
