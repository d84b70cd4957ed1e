// Sixteen floats side by side. Arithmetic on them is IEEE's, lane by lane, so that every level of
// instructions and every compiler gives the same bits; what sums across lanes states its order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cria {

inline constexpr size_t kLanes = 16;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float))));
typedef uint32_t LaneWords __attribute__((vector_size(kLanes * sizeof(uint32_t))));
typedef int32_t LaneInts __attribute__((vector_size(kLanes * sizeof(int32_t))));

// Inlined into the versions of a function for each level (quant/numbers/multiversion.h). Lanes go
// by reference: by value they would need one calling convention for every level.
#define CRIA_LANES_INLINE [[gnu::always_inline]] inline

CRIA_LANES_INLINE void load(const float* from, Lanes* to) { std::memcpy(to, from, sizeof *to); }
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

CRIA_LANES_INLINE void magnitude(const Lanes& x, Lanes* result) {
  *result = (Lanes)((LaneWords)x & 0x7fffffffu);
}

// A mask of the lanes in which a is nearer to zero than b; what is no number is farther than all.
//
// GCC takes arithmetic apart into as many vectors as a level needs for sixteen lanes, but
// comparisons and choices by them lane by lane, unless the registers are so wide: hence by the
// bits.
CRIA_LANES_INLINE void is_smaller(const Lanes& a, const Lanes& b, LaneInts* mask) {
  const auto sizes_of_a = (LaneInts)((LaneWords)a & 0x7fffffffu);
  const auto sizes_of_b = (LaneInts)((LaneWords)b & 0x7fffffffu);
  *mask = (sizes_of_a - sizes_of_b) >> 31;
}

// yes where a mask's bits are set, no where they are not.
CRIA_LANES_INLINE void select(const LaneInts& mask, const Lanes& yes, const Lanes& no,
                              Lanes* result) {
  const auto bits = (LaneWords)mask;
  *result = (Lanes)(((LaneWords)yes & bits) | ((LaneWords)no & ~bits));
}

// Whether a mask has any lane.
CRIA_LANES_INLINE bool any(const LaneInts& mask) {
  uint64_t parts[sizeof mask / sizeof(uint64_t)];
  std::memcpy(parts, &mask, sizeof mask);
  uint64_t all = 0;
  for (const uint64_t part : parts) all |= part;
  return all != 0;
}

// Rounds to bf16, ties to even.
CRIA_LANES_INLINE void round_to_bf16(Lanes* x) {
  LaneWords bits = (LaneWords)*x;
  bits += 0x7fffu + (bits >> 16 & 1u);
  *x = (Lanes)(bits & 0xffff0000u);
}

}  // namespace cria
