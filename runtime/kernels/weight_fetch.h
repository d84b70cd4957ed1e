// How x86 kernels of one row ask for weights ahead of use.
#pragma once

#include <cstddef>

namespace cria {

// AVX-512's ask every 4 KB for the 4 KB that begin 6 KB on, narrower ones with each group for lines
// that far on; docs/performance.md has the figures.
inline constexpr size_t kFetchBurst = 4096;
inline constexpr size_t kFetchAhead = 6144;

}  // namespace cria
