// Numbers that nobody can guess.
#pragma once

#include <sys/random.h>

#include <cstdint>
#include <random>
#include <string>

#include "platforms/hosted/base/print_format.h"

namespace cria::hosted {

inline uint64_t random_bits() {
  uint64_t bits = 0;
  if (::getrandom(&bits, sizeof(bits), 0) == static_cast<ssize_t>(sizeof(bits))) return bits;
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

// 32 digits of them.
inline std::string random_hex() {
  return text_of("%016llx%016llx", static_cast<unsigned long long>(random_bits()),
                 static_cast<unsigned long long>(random_bits()));
}

}  // namespace cria::hosted
