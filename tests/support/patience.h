// How long tests wait for what always comes. It is spent only where something hangs, so it is far
// more than a loaded machine, an emulator or a sanitizer takes.
#pragma once

#include <chrono>
#include <thread>

namespace cria::test {

inline constexpr std::chrono::seconds kPatience(240);

// Looks every few milliseconds; false: it did not become true.
template <typename Condition>
[[nodiscard]] bool becomes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace cria::test
