// How x86 kernels of one row ask for weights ahead of use.
#pragma once

#include <cstddef>

namespace cria {

// Each group asks for as many lines as it has itself, that far on. Bursts of a page are slower
// where a core waits for few lines at once; docs/performance.md has the figures.
inline constexpr size_t kFetchAhead = 6144;

}  // namespace cria
