// Memory for an object of the library that is made for one request: aligned as they all want it.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace cria::hosted {

inline constexpr std::align_val_t kObjectAlignment{64};

struct FreeAlignedBytes {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, kObjectAlignment); }
};
using AlignedBytes = std::unique_ptr<std::byte[], FreeAlignedBytes>;

// Throws std::bad_alloc.
inline AlignedBytes aligned_bytes(size_t n_bytes) {
  return AlignedBytes(new (kObjectAlignment) std::byte[n_bytes]);
}

}  // namespace cria::hosted
