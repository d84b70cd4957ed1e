// A clock that only goes forward.
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

}  // namespace cria::hosted
