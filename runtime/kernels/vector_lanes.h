// Sixteen lanes of the compiler's own vectors, for kernels that need no intrinsics: what
// runtime/kernels/lane_variants.h asks of an ISA's file. In an anonymous namespace, as files of
// several ISAs include this (runtime/kernels/overrides.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/scalar_math.h"

namespace cria {
namespace {

struct Lanes {
  static constexpr size_t kCount = 16;
  using Floats = float __attribute__((vector_size(kCount * sizeof(float))));
  using Words = uint32_t __attribute__((vector_size(kCount * sizeof(float))));

  Floats v;

  static Lanes all(float x) { return {Floats{} + x}; }
  static Lanes load(const float* p, size_t n) {
    Lanes lanes = {};
    if (n >= kCount) {
      __builtin_memcpy(&lanes.v, p, sizeof lanes.v);
    } else {
      for (size_t i = 0; i < n; ++i) lanes.v[i] = p[i];
    }
    return lanes;
  }
  static void store(float* p, size_t n, Lanes lanes) {
    if (n >= kCount) {
      __builtin_memcpy(p, &lanes.v, sizeof lanes.v);
    } else {
      for (size_t i = 0; i < n; ++i) p[i] = lanes.v[i];
    }
  }
  friend Lanes operator+(Lanes a, Lanes b) { return {a.v + b.v}; }
  friend Lanes operator-(Lanes a, Lanes b) { return {a.v - b.v}; }
  friend Lanes operator*(Lanes a, Lanes b) { return {a.v * b.v}; }
  friend Lanes operator/(Lanes a, Lanes b) { return {a.v / b.v}; }
  static Lanes lesser(Lanes a, Lanes b) { return {a.v < b.v ? a.v : b.v}; }
  static Lanes negative(Lanes a) { return {-a.v}; }
  static Lanes first(Lanes lanes, size_t n) {
    for (size_t i = n; i < kCount; ++i) lanes.v[i] = 0.0f;
    return lanes;
  }
  static Lanes zero_below(Lanes x, Lanes limit, Lanes lanes) {
    return {x.v < limit.v ? Floats{} : lanes.v};
  }
  static Lanes power(Lanes shifted) {
    // bits(shifted) - bits(magic) + 127 is the exponent field; of lanes that zero_below sets to
    // zero, anything.
    constexpr uint32_t kBias = 127u - __builtin_bit_cast(uint32_t, kExpRoundMagic);
    const Words bits = (__builtin_bit_cast(Words, shifted.v) + kBias) << 23;
    return {__builtin_bit_cast(Floats, bits)};
  }
  static float sum(Lanes lanes) {
    float sums[kCount];
    store(sums, kCount, lanes);
    for (size_t step = kCount / 2; step != 0; step /= 2) {
      for (size_t i = 0; i < step; ++i) sums[i] += sums[i + step];
    }
    return sums[0];
  }
  static float root(float x) { return __builtin_sqrtf(x); }
};

}  // namespace
}  // namespace cria
