#include "converter/tiktoken_model.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "converter/error.h"
#include "converter/pre_tokenizer_names.h"
#include "converter/text_table.h"

namespace cria::converter {
namespace {

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::string_view kDigits = "0123456789";
// A token of n bytes can be made in n - 1 ways, each of which is looked up.
constexpr size_t kMaxMergedBytes = 512;

constexpr size_t kLlama3Tokens = 128000;
constexpr uint32_t kLlama3SpecialTokens = 256;
constexpr uint32_t kBeginOfText = 128000;
constexpr uint32_t kEndOfText = 128001;

// The bytes that text stands for; nullopt when it is no base64 with its padding.
std::optional<std::string> decode_base64(std::string_view text) {
  constexpr uint32_t kGroup = 4;
  constexpr uint32_t kDigitBits = 6;
  constexpr uint32_t kByteBits = 8;
  if (text.size() % kGroup != 0) return std::nullopt;
  const size_t n_digits = std::min(text.find('='), text.size());
  if (text.size() - n_digits > 2 ||
      text.find_first_not_of('=', n_digits) != std::string_view::npos) {
    return std::nullopt;
  }
  std::string bytes;
  uint32_t bits = 0;
  uint32_t n_bits = 0;
  for (const char digit : text.substr(0, n_digits)) {
    const size_t value = kBase64.find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    bits = bits << kDigitBits | static_cast<uint32_t>(value);
    n_bits += kDigitBits;
    if (n_bits < kByteBits) continue;
    n_bits -= kByteBits;
    bytes += static_cast<char>(static_cast<uint8_t>(bits >> n_bits));
    bits &= (1U << n_bits) - 1;
  }
  return bits == 0 ? std::optional(std::move(bytes)) : std::nullopt;
}

struct Line {
  std::string bytes;
  uint32_t rank;
};

std::optional<Line> parse_line(std::string_view line) {
  constexpr size_t kMaxRankDigits = 7;
  const size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  const std::string_view rank = line.substr(space + 1);
  auto bytes = decode_base64(line.substr(0, space));
  if (!bytes || bytes->empty() || rank.empty() || rank.size() > kMaxRankDigits ||
      rank.find_first_not_of(kDigits) != std::string_view::npos) {
    return std::nullopt;
  }
  return Line{*std::move(bytes), static_cast<uint32_t>(std::stoul(std::string(rank)))};
}

// Every way in which two tokens make a third is a merge of the third's rank.
void make_merges(const TextTable& ids, const std::string& where, TokenizerModel* model) {
  for (uint32_t id = 0; id < model->tokens.size(); ++id) {
    const std::string_view text = model->tokens[id].text;
    const TextTable::Parts parts(ids, text);
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const auto left = parts.find(0, cut);
      const auto right = left ? parts.find(cut, text.size()) : std::nullopt;
      if (!right) continue;
      if (model->merges.size() == format::kMaxMerges) {
        refuse(where,
               "its tokens make more than " + std::to_string(format::kMaxMerges) + " merges");
      }
      model->merges.push_back({*left, *right, id, id});
    }
  }
}

std::string llama3_special_token(uint32_t index) {
  constexpr std::array<const char*, 11> kNamed = {
      "<|begin_of_text|>",
      "<|end_of_text|>",
      "<|reserved_special_token_0|>",
      "<|reserved_special_token_1|>",
      "<|finetune_right_pad_id|>",
      "<|reserved_special_token_2|>",
      "<|start_header_id|>",
      "<|end_header_id|>",
      "<|eom_id|>",
      "<|eot_id|>",
      "<|python_tag|>",
  };
  constexpr uint32_t kReservedBefore = 3;
  if (index < kNamed.size()) return kNamed[index];
  return "<|reserved_special_token_" + std::to_string(index - kNamed.size() + kReservedBefore) +
         "|>";
}

}  // namespace

bool is_tiktoken_file(std::span<const uint8_t> bytes) {
  const auto end = std::find(bytes.begin(), bytes.end(), uint8_t{'\n'});
  const std::string line(bytes.begin(), end);
  const size_t space = line.find(' ');
  return end != bytes.end() && space != std::string::npos && space > 0 &&
         line.find_first_not_of(std::string(kBase64) + '=') == space && space + 1 < line.size() &&
         line.find_first_not_of(kDigits, space + 1) == std::string::npos;
}

std::vector<std::string> parse_tiktoken_file(std::string_view text, const std::string& where) {
  std::vector<std::string> tokens;
  size_t n_lines = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++n_lines;
    if (line.empty()) continue;
    auto parsed = parse_line(line);
    const std::string place = "line " + std::to_string(n_lines);
    if (!parsed) refuse(where, place + " is not a token in base64 and its rank");
    // In order, as they are written: then there is no gap, and no rank is there twice.
    if (parsed->rank != tokens.size()) {
      refuse(where, place + " has rank " + std::to_string(parsed->rank) + " where " +
                        std::to_string(tokens.size()) + " is next");
    }
    if (tokens.size() == format::kMaxVocab) refuse(where, "it has too many tokens");
    if (parsed->bytes.size() > kMaxMergedBytes) refuse(where, place + ": the token is too long");
    tokens.push_back(std::move(parsed->bytes));
  }
  return tokens;
}

TokenizerModel tokenizer_from_ranks(std::span<const std::string> tokens, const std::string& where) {
  TokenizerModel model;
  model.where = where;
  model.kind = format::TokenizerKind::kByteLevelBpe;
  model.flags = format::kIgnoreMerges;
  model.tokens.resize(tokens.size());
  TextTable ids;
  for (uint32_t id = 0; id < tokens.size(); ++id) {
    if (!ids.insert(tokens[id], id)) {
      refuse(where, "tokens " + std::to_string(*ids.find(tokens[id])) + " and " +
                        std::to_string(id) + " have the same bytes");
    }
    model.tokens[id].text = tokens[id];
    model.tokens[id].is_word = true;
    if (tokens[id].size() == 1) model.byte_tokens[static_cast<uint8_t>(tokens[id][0])] = id;
  }
  for (size_t byte = 0; byte < model.byte_tokens.size(); ++byte) {
    if (model.byte_tokens[byte] == format::kNone) {
      refuse(where, "byte " + std::to_string(byte) + " is not a token");
    }
  }
  make_merges(ids, where, &model);
  return model;
}

TokenizerModel tokenizer_from_llama3_ranks(std::span<const std::string> tokens,
                                           std::span<const AddedToken> named,
                                           const std::string& where) {
  if (tokens.size() != kLlama3Tokens) {
    refuse(where, "a tiktoken file of " + std::to_string(tokens.size()) +
                      " tokens, which does not say how it cuts words; only that of Llama 3, of " +
                      std::to_string(kLlama3Tokens) +
                      ", is supported: use a folder that has tokenizer.json");
  }
  TokenizerModel model = tokenizer_from_ranks(tokens, where);
  const SplitRule rule = {kLlama3Regex};
  set_pre_tokenizer({&rule, 1}, where, &model);
  std::vector<AddedToken> added(named.begin(), named.end());
  std::erase_if(added, [](const AddedToken& each) { return each.id < kLlama3Tokens; });
  for (uint32_t i = 0; i < kLlama3SpecialTokens; ++i) {
    const uint32_t id = kBeginOfText + i;
    const bool is_named = std::any_of(added.begin(), added.end(),
                                      [id](const AddedToken& each) { return each.id == id; });
    if (!is_named) added.push_back({id, llama3_special_token(i), true, false, false, false});
  }
  for (const AddedToken& each : added) add_token(each, &model);
  model.bos_token = kBeginOfText;
  model.eos_token = kEndOfText;
  return model;
}

}  // namespace cria::converter
