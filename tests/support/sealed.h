// States and saved chats that were changed, with a checksum that holds again.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "quant/format/checksum.h"

namespace cria::test {

// In the headers of runtime/decode/state.cpp and runtime/chat/chat_state.cpp.
inline constexpr size_t kStateChecksum = 16;
inline constexpr size_t kChatChecksum = 8;

// Puts the checksum of the first n_bytes at place, which was zero for it.
inline void seal(std::vector<uint8_t>* bytes, size_t place, size_t n_bytes) {
  uint64_t checksum = 0;
  std::memcpy(bytes->data() + place, &checksum, sizeof checksum);
  checksum = xxh64(bytes->data(), n_bytes);
  std::memcpy(bytes->data() + place, &checksum, sizeof checksum);
}

}  // namespace cria::test
