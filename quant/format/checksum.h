// XXH64, the 64-bit checksum of every section and chunk (specification: the xxHash project's
// doc/xxhash_spec.md). Seed 0 throughout the format.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

// Streams XXH64 over any number of pieces. digest() may be asked at any point and changes nothing.
class Xxh64 {
 public:
  Xxh64();
  // Appends bytes [data, data + n_bytes); data may be null when n_bytes is zero.
  void update(const void* data, size_t n_bytes);
  [[nodiscard]] uint64_t digest() const;

 private:
  // n_bytes: whole stripes of 32.
  void take_stripes(const uint8_t* p, size_t n_bytes);

  uint64_t lanes_[4];
  uint64_t total_bytes_;
  uint8_t pending_[32];
  size_t n_pending_;
};

// XXH64 of one span.
[[nodiscard]] uint64_t xxh64(const void* data, size_t n_bytes);

// XXH64 of a header without padding, with zero for its own member checksum, and of the bytes
// [behind, behind + n_bytes) that follow it.
template <typename Header>
[[nodiscard]] uint64_t sealed_xxh64(Header header, const void* behind, size_t n_bytes) {
  header.checksum = 0;
  Xxh64 hash;
  hash.update(&header, sizeof header);
  hash.update(behind, n_bytes);
  return hash.digest();
}

}  // namespace cria
