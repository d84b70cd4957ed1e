// Numbers that nobody can guess.
#pragma once

#include <sys/random.h>

#include <cstdint>
#include <random>

namespace cria::hosted {

inline uint64_t random_bits() {
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof(bits), 0) == static_cast<ssize_t>(sizeof(bits))) return bits;
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace cria::hosted
