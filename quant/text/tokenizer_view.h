// The tables of a tokenizer section and the strings of a chat template section, as they lie in the
// file (quant/text/tokenizer_format.h, quant/text/chat_template_format.h).
// quant/text/tokenizer_check.h fills both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "quant/text/byte_set.h"
#include "quant/text/chat_template_format.h"
#include "quant/text/pre_tokenizer_check.h"
#include "quant/text/tokenizer_format.h"

namespace cria {

// Pointers into the tokenizer section; trivially copyable.
struct Tokenizer {
  format::TokenizerHeader header;
  const uint32_t* token_ends;
  const uint8_t* token_flags;
  const uint32_t* sorted_tokens;
  const uint32_t* merge_ends;
  const format::MergeEntry* merges;
  const uint32_t* byte_tokens;
  const uint32_t* added_tokens;
  const char* text;
  PreTokenizerTables pre_tokenizer;  // of PreTokenizer::kStages
  // Of the added tokens: the bytes that one starts with, and whether any is without
  // kTokenNormalized (0) and with it (1).
  ByteSet added_first_bytes;
  bool added_stage_there[2];
};

// The bytes of a token; token < header.n_tokens.
[[nodiscard]] inline std::span<const char> token_text(const Tokenizer& tokenizer, uint32_t token) {
  const uint32_t begin = token == 0 ? 0 : tokenizer.token_ends[token - 1];
  return {tokenizer.text + begin, tokenizer.token_ends[token] - begin};
}

[[nodiscard]] inline bool is_special(const Tokenizer& tokenizer, uint32_t token) {
  return (tokenizer.token_flags[token] & format::kTokenSpecial) != 0;
}

struct ChatTemplate {
  format::ChatTemplateHeader header;
  const uint8_t* rules;                       // [header.n_rules] of format::ChatRule, unaligned
  const char* strings[format::kChatStrings];  // of header.string_bytes
};

[[nodiscard]] inline format::ChatRule chat_rule(const ChatTemplate& chat, size_t index) {
  format::ChatRule rule;
  std::memcpy(&rule, chat.rules + index * sizeof rule, sizeof rule);
  return rule;
}

[[nodiscard]] inline std::span<const char> chat_string(const ChatTemplate& chat,
                                                       format::ChatString which) {
  const auto i = static_cast<size_t>(which);
  return {chat.strings[i], chat.header.string_bytes[i]};
}

[[nodiscard]] inline std::span<const char> chat_joint(const ChatTemplate& chat,
                                                      const format::ChatRule& rule) {
  return chat_string(chat, format::ChatString::kJoints).subspan(rule.text, rule.n_bytes);
}

}  // namespace cria
