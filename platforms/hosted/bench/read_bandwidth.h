// How fast this machine's threads read memory: what limits a decode step.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria::hosted {

// Reads all of the memory once, as fast as one thread can; gives the sum of its 64-bit words, which
// the caller has to use, or the compiler leaves the reading out. memory is aligned
// to 8 bytes, n_bytes a multiple of 64.
uint64_t read_all(const void* memory, size_t n_bytes);

// Bytes a second that n_threads read together from 256 MB in large pages where the system has them,
// far more than caches hold; median of several passes. Takes about a second at first, for the
// pages. Throws ProgramError kMemory.
double measure_read_bandwidth(uint32_t n_threads);

}  // namespace cria::hosted
