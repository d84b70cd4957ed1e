// How fast this machine's threads read memory: what limits a decode step.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria::hosted {

// How lines are asked for ahead of use. Which way is the fastest depends on how many lines a core
// can wait for, and on what it fetches by itself.
enum class ReadAhead {
  kNone,      // only plain loads
  kEachLine,  // with each line the one 6 KB on
  kBursts,    // every 4 KB the 4 KB that begin 6 KB on
  kPages,     // with the first line of a page the first two of the next
};
inline constexpr ReadAhead kReadAheads[] = {ReadAhead::kNone, ReadAhead::kEachLine,
                                            ReadAhead::kBursts, ReadAhead::kPages};

// Reads all of the memory once with one thread; gives the sum of its 64-bit words, which the caller
// has to use, or the compiler leaves the reading out. memory is aligned to 8 bytes, n_bytes a
// multiple of 64.
uint64_t read_all(const void* memory, size_t n_bytes, ReadAhead ahead);

// Bytes a second that n_threads read together from 256 MB in large pages where the system has them,
// far more than caches hold, by the fastest way, over about a second in which the ways take turns.
// The pages take another one at first. Throws ProgramError kMemory.
double measure_read_bandwidth(uint32_t n_threads);

}  // namespace cria::hosted
