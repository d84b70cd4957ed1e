// A clock that only goes forward, and the one on the wall.
#pragma once

#include <chrono>
#include <cstdint>

namespace cria::hosted {

inline int64_t monotonic_ms() {
  using std::chrono::milliseconds;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<milliseconds>(now).count();
}

inline double monotonic_seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

// Since 1970, by UTC.
inline int64_t unix_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

inline int64_t unix_seconds() { return unix_ns() / 1'000'000'000; }

}  // namespace cria::hosted
