// How x86 kernels of one row ask for weights ahead of use.
#pragma once

#include <cstddef>

namespace cria {

// Every 4 KB they ask for the 4 KB that begin 6 KB on. In bursts more lines are under way than when
// a few are asked for with each group; docs/performance.md has the figures.
inline constexpr size_t kFetchBurst = 4096;
inline constexpr size_t kFetchAhead = 6144;

}  // namespace cria
