// The tiny model as a source, and changes to its file that leave a conversation without tokens.
#pragma once

#include <cstring>

#include "quant/text/chat_template_format.h"
#include "quant/text/tokenizer_format.h"
#include "tests/support/model_files.h"
#include "tests/support/model_surgery.h"
#include "tests/support/test_session.h"
#include "tests/support/tiny_checkpoint.h"

namespace cria::test {

inline const Bytes& tiny_model() {
  static const Bytes model = [] {
    const auto folder = temporary_folder() / "tiny";
    write_tiny_checkpoint(folder);
    return convert_folder(folder,
                          {format::NumberFormat::kInt4, 32, format::Compression::kStored, true});
  }();
  return model;
}

inline const MemorySource& tiny_source() {
  static const MemorySource source(tiny_model());
  return source;
}

inline cria_config exact_config() {
  cria_config config = {};
  config.backend = CRIA_BACKEND_EXACT;
  return config;
}

// A template that writes nothing around messages; what users say loses white space at both ends
// where trims_users.
inline Bytes without_template_text(Bytes file, bool trims_users) {
  const std::span<uint8_t> section = section_bytes(file, format::SectionKind::kChatTemplate);
  format::ChatTemplateHeader header;
  std::memcpy(&header, section.data(), sizeof header);
  header.flags = 0;
  std::memcpy(section.data(), &header, sizeof header);
  for (uint32_t i = 0; i < header.n_rules; ++i) {
    uint8_t* const at = section.data() + sizeof header + i * sizeof(format::ChatRule);
    format::ChatRule rule;
    std::memcpy(&rule, at, sizeof rule);
    rule.n_bytes = 0;
    const uint32_t user = bit_of(format::ChatUnit::kUser);
    const uint32_t trim = trims_users ? static_cast<uint32_t>(format::ChatTrim::kSpace) : 0;
    rule.trims =
        static_cast<uint8_t>((rule.left == user ? trim : 0) | (rule.right == user ? trim << 4 : 0));
    std::memcpy(at, &rule, sizeof rule);
  }
  mend_checksums(file);
  return file;
}

// Takes the token of a byte away, so that its text is no token at all.
inline Bytes without_byte(Bytes file, char byte) {
  const std::span<uint8_t> section = section_bytes(file, format::SectionKind::kTokenizer);
  format::TokenizerHeader header;
  std::memcpy(&header, section.data(), sizeof header);
  constexpr size_t kWord = sizeof(uint32_t);
  const size_t flags = (header.n_tokens + kWord - 1) / kWord * kWord;
  const size_t byte_tokens = sizeof header + 2 * kWord * header.n_tokens + flags +
                             kWord * header.n_sorted + sizeof(format::MergeEntry) * header.n_merges;
  const uint32_t none = format::kNone;
  std::memcpy(section.data() + byte_tokens + kWord * static_cast<uint8_t>(byte), &none, kWord);
  mend_checksums(file);
  return file;
}

}  // namespace cria::test
