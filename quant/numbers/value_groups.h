// Values of the KV cache in 4 bits (KvFormat::kK8V4): how the values of one position and KV head
// lie.
//
// The head's elements are cut into groups of 32; the last may have fewer. A group of n elements
// takes h = ceil(n / 2) bytes: byte i has element i in its low nibble and element i + h in its high
// one, as code + 8, or code 0 where there is no such element. A value is code * scale of its group,
// codes -8..7, scales bf16 of either sign.
#pragma once

#include <cstddef>

namespace cria {

inline constexpr size_t kValueGroup = 32;

[[nodiscard]] constexpr size_t value_groups(size_t head_dim) {
  return (head_dim + kValueGroup - 1) / kValueGroup;
}
// Elements of the group that begins at begin.
[[nodiscard]] constexpr size_t value_group_size(size_t head_dim, size_t begin) {
  return head_dim - begin < kValueGroup ? head_dim - begin : kValueGroup;
}
// Bytes of a row, or of a group of it.
[[nodiscard]] constexpr size_t value_bytes(size_t head_dim) { return (head_dim + 1) / 2; }

}  // namespace cria
