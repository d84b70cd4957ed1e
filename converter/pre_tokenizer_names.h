// How the tokenizers that people know by name cut text into words before the merges.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "converter/tokenizer_tables.h"
#include "quant/text/tokenizer_format.h"

namespace cria::converter {

// One stage of a pre-tokenizer: a regex, as the tokenizers library reads it, cuts each piece of the
// stage before it.
struct SplitRule {
  std::string_view regex;
  format::SplitBehavior behavior = format::SplitBehavior::kIsolated;
  bool inverted = false;  // what the regex leaves out counts as its matches
  bool operator==(const SplitRule&) const = default;
};

// The regex of the library's ByteLevel.
inline constexpr std::string_view kGpt2Regex =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
// That of tiktoken's Llama 3.
inline constexpr std::string_view kLlama3Regex =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct NamedPreTokenizer {
  std::string_view name;
  std::span<const SplitRule> rules;
  uint32_t flags;  // TokenizerHeader::flags that they have unless their files say otherwise
};

// The one that other programs call name (tokenizer.ggml.pre of a GGUF file); null for others.
[[nodiscard]] const NamedPreTokenizer* find_pre_tokenizer(std::string_view name);

// Makes byte-level words of these rules, one after the other; none: the text is one word. Throws
// ProgramError that begins with where and names what is not supported and its place in the regex.
void set_pre_tokenizer(std::span<const SplitRule> rules, const std::string& where,
                       TokenizerModel* model);

}  // namespace cria::converter
