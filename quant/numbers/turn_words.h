// A matrix of words turned about: what is in its rows comes to lie in columns.
//
// For functions compiled once a level (quant/numbers/multiversion.h): all is inlined into them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/numbers/lanes.h"

namespace cria {

// Four words: what the narrowest vector registers hold, so that every level shuffles them as one.
inline constexpr size_t kQuad = 4;
typedef uint32_t Quad __attribute__((vector_size(kQuad * sizeof(uint32_t))));

// to [cols][rows] = from [rows][cols], words of four bytes. rows and cols are multiples of four;
// the arrays do not overlap.
CRIA_LANES_INLINE void turn_words(const void* __restrict from, size_t rows, size_t cols,
                                  void* __restrict to) {
  const auto* const in = static_cast<const uint8_t*>(from);
  auto* const out = static_cast<uint8_t*>(to);
  for (size_t row = 0; row < rows; row += kQuad) {
    for (size_t col = 0; col < cols; col += kQuad) {
      Quad a, b, c, d;
      std::memcpy(&a, in + (row * cols + col) * sizeof(uint32_t), sizeof a);
      std::memcpy(&b, in + ((row + 1) * cols + col) * sizeof(uint32_t), sizeof b);
      std::memcpy(&c, in + ((row + 2) * cols + col) * sizeof(uint32_t), sizeof c);
      std::memcpy(&d, in + ((row + 3) * cols + col) * sizeof(uint32_t), sizeof d);
      const Quad ab_front = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      const Quad ab_back = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      const Quad cd_front = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      const Quad cd_back = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      const Quad turned[kQuad] = {__builtin_shufflevector(ab_front, cd_front, 0, 1, 4, 5),
                                  __builtin_shufflevector(ab_front, cd_front, 2, 3, 6, 7),
                                  __builtin_shufflevector(ab_back, cd_back, 0, 1, 4, 5),
                                  __builtin_shufflevector(ab_back, cd_back, 2, 3, 6, 7)};
      for (size_t i = 0; i < kQuad; ++i) {
        std::memcpy(out + ((col + i) * rows + row) * sizeof(uint32_t), &turned[i], sizeof a);
      }
    }
  }
}

}  // namespace cria
