// The steps of tokenizer.json before and after BPE: normalizer, pre-tokenizer, post-processor and
// decoder, as far as the file format can say them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "converter/json_input.h"
#include "converter/pre_tokenizer_names.h"
#include "quant/text/tokenizer_format.h"

namespace cria::converter {

// A SplitRule with its regex.
struct OwnedRule {
  std::string regex;
  format::SplitBehavior behavior = format::SplitBehavior::kIsolated;
  bool inverted = false;

  [[nodiscard]] SplitRule view() const { return {regex, behavior, inverted}; }
};

struct TokenizerStages {
  format::TokenizerKind kind = format::TokenizerKind::kByteLevelBpe;
  format::PreTokenizer pre_tokenizer = format::PreTokenizer::kWhole;  // of SentencePiece
  std::vector<OwnedRule> rules;                                       // of byte-level BPE
  uint32_t flags = 0;                   // TokenizerHeader::flags that follow from the stages
  bool replaces_in_normalizer = false;  // spaces are U+2581 before added tokens are looked for
  bool prepends_in_normalizer = false;  // and a U+2581 stands before the text
  std::optional<uint32_t> begin_token;  // put before the text
  std::optional<uint32_t> end_token;    // put after it
};

// Reads the stages of a whole tokenizer.json. Throws ProgramError that names what is unsupported.
[[nodiscard]] TokenizerStages read_stages(const Json& root, const std::string& where);

// text with U+2581 for its spaces.
[[nodiscard]] std::string replace_spaces(std::string_view text);

}  // namespace cria::converter
