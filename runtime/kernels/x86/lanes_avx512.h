// Registers of sixteen floats, and parts of them. In an anonymous namespace, as what files of
// several ISAs include may have no vague linkage (runtime/kernels/overrides.h).
#pragma once

#if defined(__AVX512F__)

#include <immintrin.h>

#include <cstddef>

namespace cria {
namespace {

constexpr size_t kLanes = 16;

// Lanes of n elements that are still to be done, 16 at most.
inline __mmask16 lanes_of(size_t n) {
  return static_cast<__mmask16>(n < kLanes ? (1u << n) - 1 : 0xffff);
}

}  // namespace
}  // namespace cria

#endif  // __AVX512F__
