// Texts in ascending order, read byte by byte together.
#pragma once

#include <cstdint>
#include <string_view>

namespace cria::json {

// Of texts [first, last), which ascend and are alike before a place: leaves those that have the
// byte there.
template <typename TextOf>
void narrow(const TextOf& text, uint32_t place, char byte, uint32_t* first, uint32_t* last) {
  // A text that ends there comes before all that go on.
  const auto at = [&](uint32_t i) {
    const std::string_view t = text(i);
    return place < t.size() ? static_cast<int>(static_cast<uint8_t>(t[place])) : -1;
  };
  const auto bound = [&](int least) {
    uint32_t low = *first;
    uint32_t high = *last;
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (at(middle) < least) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  };
  const int wanted = static_cast<uint8_t>(byte);
  const uint32_t begin = bound(wanted);
  const uint32_t end = bound(wanted + 1);
  *first = begin;
  *last = end;
}

}  // namespace cria::json
