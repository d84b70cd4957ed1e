// Allocations that fail when a test says so, and what they add up to. It replaces the program's
// operator new: for a source named *_memory_test.cpp or *_fuzz.cpp, which is a program of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>

namespace cria::test {

// Threads that are spared never hear of it; those of a library are not, unless they say so.
inline thread_local int n_spares = 0;
class Spared {
 public:
  Spared() { ++n_spares; }
  ~Spared() { --n_spares; }
  Spared(const Spared&) = delete;
  Spared& operator=(const Spared&) = delete;
};

inline std::atomic<bool> is_failing = false;
inline std::atomic<int64_t> n_counted = 0;
inline std::atomic<int64_t> first_failure = 0;
inline std::atomic<int64_t> n_failures = 0;

// Of this thread, what was freed included.
inline thread_local uint64_t n_allocated_bytes = 0;

// From now on the n-th allocation of threads that are not spared fails (0: the next), and as many
// as follow it.
inline void fail_allocations(int64_t n, int64_t n_failing) {
  n_counted = 0;
  first_failure = n;
  n_failures = n_failing;
  is_failing = true;
}
inline constexpr int64_t kAllThatFollow = std::numeric_limits<int32_t>::max();

// No more; true: some failed.
inline bool stop_failing() {
  is_failing = false;
  return n_counted > first_failure;
}

inline bool allocation_fails() {
  if (!is_failing || n_spares > 0) return false;
  const int64_t n = n_counted++;
  return n >= first_failure && n < first_failure + n_failures;
}

inline void* allocated(size_t n_bytes) {
  n_allocated_bytes += n_bytes;
  return allocation_fails() ? nullptr : std::malloc(n_bytes == 0 ? 1 : n_bytes);
}

// Not inlined, as a compiler that sees new beside free warns.
[[gnu::noinline]] inline void release(void* memory) { std::free(memory); }

[[gnu::noinline]] inline void* allocated_or_thrown(size_t n_bytes) {
  void* const memory = allocated(n_bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace cria::test

void* operator new(size_t n_bytes) { return cria::test::allocated_or_thrown(n_bytes); }
void* operator new[](size_t n_bytes) { return cria::test::allocated_or_thrown(n_bytes); }
void* operator new(size_t n_bytes, const std::nothrow_t&) noexcept {
  return cria::test::allocated(n_bytes);
}
void* operator new[](size_t n_bytes, const std::nothrow_t&) noexcept {
  return cria::test::allocated(n_bytes);
}
void operator delete(void* memory) noexcept { cria::test::release(memory); }
void operator delete[](void* memory) noexcept { cria::test::release(memory); }
void operator delete(void* memory, size_t) noexcept { cria::test::release(memory); }
void operator delete[](void* memory, size_t) noexcept { cria::test::release(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { cria::test::release(memory); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  cria::test::release(memory);
}
