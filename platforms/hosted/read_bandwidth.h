// How fast this machine's threads read memory: what limits a decode step.
#pragma once

#include <cstdint>

namespace cria::hosted {

// Bytes a second that n_threads read together from 256 MB in large pages where the system has them,
// far more than caches hold; median of several passes. Takes about a second at first, for the
// pages. Throws ProgramError kMemory.
double measure_read_bandwidth(uint32_t n_threads);

}  // namespace cria::hosted
