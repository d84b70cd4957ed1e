// Where XNNPACK's memory comes from: pieces of the arena, and nothing else. XNNPACK has one
// allocator for the process, given to it once and without a session to turn to, so what it takes
// is directed by a thread's current region. Outside a region every allocation is refused: the
// library never reaches the heap through us.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/base/status.h"

namespace cria::xnnpack {

// Memory handed out from its start to its end, in pieces of whole 64 bytes. Nothing is given back.
struct Region {
  uint8_t* base;       // aligned to 64
  uint64_t capacity;   // bytes
  uint32_t n_allowed;  // allocations served; later ones are counted and refused
  uint64_t used;       // bytes asked for, refused ones included
  uint32_t n_asked;    // allocations asked for
};

// The next n_bytes of a region, aligned to 64; null when it refuses.
[[nodiscard]] uint8_t* take(Region* region, size_t n_bytes);

// Gives XNNPACK its allocator, once a process, and asks the CPU for its features. kUnsupported when
// the CPU's features cannot be had, or when the program gave XNNPACK another allocator before.
[[nodiscard]] Status initialize();

// What this thread's XNNPACK calls allocate is taken from region while the object lives. Regions
// do not nest.
class RegionScope {
 public:
  explicit RegionScope(Region* region);
  ~RegionScope();
  RegionScope(const RegionScope&) = delete;
  RegionScope& operator=(const RegionScope&) = delete;
};

}  // namespace cria::xnnpack
