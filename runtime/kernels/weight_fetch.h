// How far ahead of use x86 kernels ask for weights.
#pragma once

#include <cstddef>

namespace cria {

// Bytes. A group asks for as many lines as it has itself, that far on; where a core's own prefetch
// is faster it does not ask. Bursts of a page are slower; docs/performance.md has the figures.
// AVX2's are near, which was measured on Zen 3; of the other levels no core was at hand then.
inline constexpr size_t kFetchNear = 1280;
inline constexpr size_t kFetchFar = 6144;

}  // namespace cria
