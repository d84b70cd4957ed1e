// Arrays between pages that nobody may touch: an access before the first or past the last element
// is a fault.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace cria::test {

// Which guard page the array touches.
enum class Edge { kEnd, kStart };

// Room for one array at a time, of up to capacity bytes.
class Guarded {
 public:
  explicit Guarded(size_t capacity_bytes) {
    bytes_ = (capacity_bytes + kPage - 1) / kPage * kPage;
    void* const all =
        ::mmap(nullptr, bytes_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) std::abort();
    begin_ = static_cast<uint8_t*>(all) + kPage;
    if (::mprotect(begin_, bytes_, PROT_READ | PROT_WRITE) != 0) std::abort();
  }
  ~Guarded() { ::munmap(begin_ - kPage, bytes_ + 2 * kPage); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  // n elements at an edge, contents undefined.
  template <class T>
  [[nodiscard]] T* place(size_t n, Edge edge) {
    if (n * sizeof(T) > bytes_) std::abort();
    return reinterpret_cast<T*>(edge == Edge::kStart ? begin_ : begin_ + bytes_ - n * sizeof(T));
  }

  // A copy of n elements at an edge.
  template <class T>
  [[nodiscard]] T* copy(const T* from, size_t n, Edge edge) {
    T* const to = place<T>(n, edge);
    if (n != 0) std::memcpy(to, from, n * sizeof(T));
    return to;
  }

 private:
  static constexpr size_t kPage = 65536;  // a multiple of every page size in use

  uint8_t* begin_;
  size_t bytes_;
};

}  // namespace cria::test
