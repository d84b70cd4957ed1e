// Tokens that are no text, the same each time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cria::test {

// A longer list of the same salt begins with a shorter one.
[[nodiscard]] inline std::vector<uint32_t> some_tokens(size_t n, uint32_t vocab_size,
                                                       uint32_t salt = 3) {
  std::vector<uint32_t> tokens(n);
  for (size_t i = 0; i < n; ++i) {
    tokens[i] = static_cast<uint32_t>((i * i * 7 + i * 13 + salt) % vocab_size);
  }
  return tokens;
}

}  // namespace cria::test
