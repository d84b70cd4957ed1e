// PCG32 (O'Neill 2014, XSH-RR 64/32), the sampler's random numbers: integers only, so every target
// draws the same ones.
#pragma once

#include <bit>
#include <cstdint>

namespace cria {

struct Pcg32 {
  uint64_t state;

  [[nodiscard]] static Pcg32 seeded(uint64_t seed) {
    Pcg32 r = {0};
    static_cast<void>(r.next());
    r.state += seed;
    static_cast<void>(r.next());
    return r;
  }

  uint32_t next() {
    constexpr uint64_t kMultiplier = 6364136223846793005u;
    constexpr uint64_t kIncrement = 1442695040888963407u;
    const uint64_t old = state;
    state = old * kMultiplier + kIncrement;
    const auto shifted = static_cast<uint32_t>(((old >> 18) ^ old) >> 27);
    return std::rotr(shifted, static_cast<int>(old >> 59));
  }

  // Uniform in [0, 1), a multiple of 2^-24.
  float next_unit() { return static_cast<float>(next() >> 8) * 0x1p-24f; }
};

}  // namespace cria
