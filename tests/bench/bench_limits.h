// What this machine does at most, measured in the run that compares kernels with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "platforms/hosted/session/arena_memory.h"

namespace cria::bench {

struct Limits {
  double bytes_per_second = 0;                             // read by one thread
  std::map<std::string, double> multiply_adds_per_second;  // of bytes, by ISA
};

// CPU time of this thread: what benchmarks report, and what a busy neighbour does not change.
[[nodiscard]] double cpu_seconds();

// Memory larger than any cache, every byte kColdByte.
class ColdMemory {
 public:
  ColdMemory();
  [[nodiscard]] const uint8_t* data() const { return static_cast<const uint8_t*>(memory_.data()); }
  [[nodiscard]] size_t size_bytes() const { return memory_.size_bytes(); }

 private:
  hosted::ArenaMemory memory_;
};

// A good value for whatever a kernel takes it for: the codes 4 and -5, the code 60, 0.0115 in bf16
// and f32, 1.06 in f16.
inline constexpr uint8_t kColdByte = 0x3c;

// One place of n_bytes after the other, so that what is read next was last read long ago: so a
// token meets each matrix and each layer's cache.
class ColdWalk {
 public:
  ColdWalk(const ColdMemory& memory, size_t n_bytes) : memory_(memory), n_bytes_(n_bytes) {}

  const uint8_t* next() {
    if (at_ + n_bytes_ > memory_.size_bytes()) at_ = 0;
    const uint8_t* const place = memory_.data() + at_;
    constexpr size_t kAlignment = 64;
    at_ += (n_bytes_ + kAlignment - 1) / kAlignment * kAlignment;
    return place;
  }

 private:
  const ColdMemory& memory_;
  size_t n_bytes_;
  size_t at_ = 0;
};

// limit/read_bandwidth/<way> and limit/dot_products/<isa>; each run raises its entry of limits.
// Both must outlive the run.
void register_limits(const ColdMemory& memory, Limits* limits);

}  // namespace cria::bench
