// Values as the bytes they are stored in.
#pragma once

#include <cstdint>
#include <span>

namespace cria::converter {

// values is a vector, a string or a span; it must outlive what is returned.
template <typename Values>
[[nodiscard]] std::span<const uint8_t> bytes_of(const Values& values) {
  const std::span elements(values);
  return {reinterpret_cast<const uint8_t*>(elements.data()), elements.size_bytes()};
}

}  // namespace cria::converter
