// Text that a tokenizer's rules may put a space in front of.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/text/utf8.h"

namespace cria {

// UTF-8 text that may have a space in front of it which is in no memory. Offsets count that space.
struct PrefixedText {
  const char* data;  // what follows the space
  size_t n_bytes;    // with the space
  bool has_prefix;

  // Bytes [begin, end) of it.
  [[nodiscard]] PrefixedText part(size_t begin, size_t end) const {
    const size_t prefix = has_prefix ? 1 : 0;
    if (has_prefix && begin == 0 && end > 0) return {data, end, true};
    return {begin == 0 ? data : data + (begin - prefix), end - begin, false};
  }
  // The byte at offset < n_bytes.
  [[nodiscard]] char byte_at(size_t offset) const {
    if (!has_prefix) return data[offset];
    return offset == 0 ? ' ' : data[offset - 1];
  }
  // The character at offset < n_bytes.
  [[nodiscard]] Utf8Char char_at(size_t offset) const {
    if (!has_prefix) return decode_utf8(data + offset, n_bytes - offset);
    if (offset == 0) return {' ', 1, true};
    return decode_utf8(data + (offset - 1), n_bytes - offset);
  }
};

}  // namespace cria
