// The tokens of a model in the order of their bytes, so that what they share is read once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cria_json.h>
#include "quant/text/tokenizer_view.h"
#include "runtime/base/status.h"

namespace cria::json {

// Longer tokens are never left by a mask: runs of one character, and what nobody would miss.
inline constexpr uint32_t kMostTokenBytes = 64;
inline constexpr size_t kFirstBytes = 256;

struct TokenEntry {
  uint32_t token;
  uint32_t offset;  // of its bytes in the vocabulary's text
  uint8_t n_bytes;
  uint8_t n_shared;      // with the entry before it
  uint8_t n_characters;  // of a plain token
  uint8_t reserved;
};
static_assert(sizeof(TokenEntry) == 12);

// Tokens ascending by their bytes; entries [first[c], first[c + 1]) begin with byte c.
struct TokenGroup {
  TokenEntry* entries;
  uint32_t first[kFirstBytes + 1];
};

// The bytes that a token adds to a text that has begun; 0 for one that no mask leaves.
[[nodiscard]] uint32_t token_bytes(const Tokenizer& tokenizer, uint32_t token,
                                   std::span<char, kMostTokenBytes> bytes);

[[nodiscard]] const Tokenizer& tokenizer_of(const cria_json_vocabulary& vocabulary);

}  // namespace cria::json

struct cria_json_vocabulary {
  const cria_model* model;
  // Plain tokens can stand in any string: whole characters, no quote, no backslash, no control
  // character and no end of a line.
  cria::json::TokenGroup plain;
  cria::json::TokenGroup others;
  const char* text;
  uint32_t* plain_bits;  // a bit a token
  uint32_t n_words;      // of such bits
  uint32_t longest;      // bytes
};
