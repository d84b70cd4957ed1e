// How far ahead of use x86 kernels ask for weights.
#pragma once

#include <cstddef>

namespace cria {

// Bytes. A group asks for as many lines as it has itself, that far on; where a core's own prefetch
// is faster it does not ask. Bursts of a page are slower; docs/performance.md has the figures.
inline constexpr size_t kFetchAhead = 6144;

}  // namespace cria
