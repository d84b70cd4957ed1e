// Choices of the mutators, all from the one seed that libFuzzer gives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>

namespace cria::fuzz {

class RandomChoice {
 public:
  explicit RandomChoice(unsigned seed) : random_(seed) {}

  // Below n; n >= 1.
  uint32_t below(size_t n) { return static_cast<uint32_t>(random_() % n); }
  bool one_in(uint32_t n) { return below(n) == 0; }
  uint32_t bits() { return static_cast<uint32_t>(random_()); }
  template <typename Value, size_t N>
  const Value& of(const Value (&values)[N]) {
    return values[below(N)];
  }
  // Numbers at which formats and programs change their mind, and any others.
  uint32_t interesting() {
    static constexpr uint32_t kNumbers[] = {
        0,          1,          2,          3,          4,          5,          7,
        8,          15,         16,         17,         31,         32,         33,
        63,         64,         65,         96,         127,        128,        129,
        255,        256,        257,        299,        300,        301,        511,
        512,        1023,       1024,       1025,       4095,       4096,       4097,
        65535,      65536,      131072,     262143,     262144,     262145,     1u << 20,
        1u << 21,   1u << 23,   1u << 24,   1u << 26,   0x7fffffff, 0x80000000, 0xfffffffe,
        0xffffffff, 0x3f800000, 0x7f800000, 0x7fc00000, 0xff800000, 0x80800000, 0x00000001,
        0x7f7fffff, 0x3f000000};
    switch (below(4)) {
      case 0:
        return below(16);
      case 1:
        return bits() >> below(32);
      default:
        return of(kNumbers);
    }
  }

 private:
  std::mt19937 random_;
};

}  // namespace cria::fuzz
