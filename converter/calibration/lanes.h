// Sixteen floats side by side. Arithmetic on them is IEEE's, lane by lane, so that every x86 level
// and compiler gives the same bits; what sums across lanes states its order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cria::converter {

inline constexpr size_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef uint32_t LaneWords __attribute__((vector_size(kLanes * sizeof(uint32_t))));
typedef uint16_t LaneHalves __attribute__((vector_size(kLanes * sizeof(uint16_t))));

// Inlined into the versions of a function for each x86 level (quant/multiversion.h). Lanes go by
// reference: by value they would need one calling convention for every level.
#define CRIA_LANES_INLINE [[gnu::always_inline]] inline

CRIA_LANES_INLINE void load(const float* from, Lanes* to) { std::memcpy(to, from, sizeof *to); }
// bf16, widened.
CRIA_LANES_INLINE void load(const uint16_t* from, Lanes* to) {
  LaneHalves halves;
  std::memcpy(&halves, from, sizeof halves);
  const LaneWords words = __builtin_convertvector(halves, LaneWords) << 16;
  std::memcpy(to, &words, sizeof *to);
}
CRIA_LANES_INLINE void store(const Lanes& from, float* to) { std::memcpy(to, &from, sizeof from); }

// The lanes' sum: halves are added, lane i to lane i + 8, then 4, 2, 1.
CRIA_LANES_INLINE float sum_of(const Lanes& x) {
  float parts[kLanes];
  store(x, parts);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) parts[i] += parts[i + half];
  }
  return parts[0];
}

}  // namespace cria::converter
