// Takes an input apart from its front. What is no longer there reads as zero.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace cria::fuzz {

class ByteFeed {
 public:
  ByteFeed(const uint8_t* data, size_t size) : rest_(data, size) {}

  [[nodiscard]] bool is_empty() const { return rest_.empty(); }
  [[nodiscard]] std::span<const uint8_t> rest() const { return rest_; }

  // At most n bytes.
  std::span<const uint8_t> take(size_t n) {
    const std::span<const uint8_t> taken = rest_.first(std::min(n, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::string_view take_text(size_t n) {
    const std::span<const uint8_t> taken = take(n);
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  // Little-endian, n_bytes <= 8.
  uint64_t number(size_t n_bytes) {
    uint64_t value = 0;
    const std::span<const uint8_t> taken = take(n_bytes);
    if (!taken.empty()) std::memcpy(&value, taken.data(), taken.size());
    return value;
  }
  uint8_t byte() { return static_cast<uint8_t>(number(1)); }
  // Below n; n >= 1.
  uint32_t below(uint32_t n) { return byte() % n; }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace cria::fuzz
