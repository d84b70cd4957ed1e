// Tokenizer sections built by hand, as docs/model_format.md describes them, without the converter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "quant/model/memory_plan.h"
#include "runtime/text/tokenizer.h"
#include "tests/unit/runtime/text/word_tables.h"

namespace cria::test {

using Tokens = std::vector<uint32_t>;

struct SectionMerge {
  uint32_t left;
  uint32_t right;
  uint32_t rank;
  uint32_t result;
};

// The arrays as they go into the file: nothing is put in order, so that a test can put it wrong.
struct TokenizerSection {
  format::TokenizerHeader header = {};
  std::vector<std::string> texts;
  std::vector<uint8_t> flags;
  Tokens sorted;
  std::vector<SectionMerge> merges;  // by left, then right
  Tokens byte_tokens = Tokens(256, format::kNone);
  Tokens added;
  std::vector<uint8_t> pre_tokenizer;

  TokenizerSection(format::TokenizerKind kind, format::PreTokenizer cut) {
    header.kind = static_cast<uint32_t>(kind);
    header.pre_tokenizer = static_cast<uint32_t>(cut);
    header.bos_token = header.eos_token = header.unknown_token = format::kNone;
    if (cut == format::PreTokenizer::kStages) set_tables(gpt2_tables());
  }
  void set_tables(const WordTables& tables) { pre_tokenizer = tables.bytes(); }

  uint32_t add(std::string text, uint8_t token_flags) {
    texts.push_back(std::move(text));
    flags.push_back(token_flags);
    return static_cast<uint32_t>(texts.size() - 1);
  }
  uint32_t add(std::string text) { return add(std::move(text), 0); }
  uint32_t id(std::string_view text) const {
    return static_cast<uint32_t>(std::find(texts.begin(), texts.end(), text) - texts.begin());
  }
  // Adds the result, too, if it is not there. Merges get their ranks in the order of the calls.
  void merge(std::string_view left, std::string_view right) {
    const std::string result = std::string(left) + std::string(right);
    const uint32_t known = id(result);
    const uint32_t whole = known < texts.size() ? known : add(result);
    merges.push_back({id(left), id(right), static_cast<uint32_t>(merges.size()), whole});
  }
  void put_in_order() {
    std::sort(merges.begin(), merges.end(), [](const SectionMerge& a, const SectionMerge& b) {
      return a.left != b.left ? a.left < b.left : a.right < b.right;
    });
    std::sort(sorted.begin(), sorted.end(),
              [this](uint32_t a, uint32_t b) { return texts[a] < texts[b]; });
    std::sort(added.begin(), added.end(), [this](uint32_t a, uint32_t b) {
      const std::string& x = texts[a];
      const std::string& y = texts[b];
      if (x[0] != y[0]) return static_cast<uint8_t>(x[0]) < static_cast<uint8_t>(y[0]);
      return x.size() != y.size() ? x.size() > y.size() : x < y;
    });
  }

  [[nodiscard]] std::vector<uint8_t> bytes() const {
    format::TokenizerHeader filled = header;
    std::string text;
    Tokens token_ends;
    Tokens merge_ends(texts.size(), 0);
    std::vector<format::MergeEntry> entries;
    for (const std::string& each : texts) {
      text += each;
      token_ends.push_back(static_cast<uint32_t>(text.size()));
      filled.longest_token = std::max(filled.longest_token, static_cast<uint32_t>(each.size()));
    }
    for (const SectionMerge& merge : merges) {
      entries.push_back({merge.right, merge.rank, merge.result});
      ++merge_ends[merge.left];
    }
    std::partial_sum(merge_ends.begin(), merge_ends.end(), merge_ends.begin());
    filled.n_tokens = static_cast<uint32_t>(texts.size());
    filled.n_sorted = static_cast<uint32_t>(sorted.size());
    filled.n_merges = static_cast<uint32_t>(entries.size());
    filled.n_added = static_cast<uint32_t>(added.size());
    filled.text_bytes = static_cast<uint32_t>(text.size());
    filled.pre_tokenizer_bytes = static_cast<uint32_t>(pre_tokenizer.size());
    std::vector<uint8_t> out;
    const auto append = [&out](const void* data, size_t n_bytes) {
      out.resize((out.size() + 3) / 4 * 4);
      const auto* begin = static_cast<const uint8_t*>(data);
      out.insert(out.end(), begin, begin + n_bytes);
    };
    append(&filled, sizeof(filled));
    append(token_ends.data(), token_ends.size() * sizeof(uint32_t));
    append(flags.data(), flags.size());
    append(sorted.data(), sorted.size() * sizeof(uint32_t));
    append(merge_ends.data(), merge_ends.size() * sizeof(uint32_t));
    append(entries.data(), entries.size() * sizeof(format::MergeEntry));
    append(byte_tokens.data(), byte_tokens.size() * sizeof(uint32_t));
    append(added.data(), added.size() * sizeof(uint32_t));
    append(text.data(), text.size());
    if (!pre_tokenizer.empty()) append(pre_tokenizer.data(), pre_tokenizer.size());
    return out;
  }
};

// Byte-level: every byte, and merges for "he", "ll", "hell", "hello", " w", "or".
inline TokenizerSection byte_level_section(format::PreTokenizer pre_tokenizer) {
  TokenizerSection s(format::TokenizerKind::kByteLevelBpe, pre_tokenizer);
  for (uint32_t byte = 0; byte < 256; ++byte) {
    s.byte_tokens[byte] = s.add(std::string(1, static_cast<char>(byte)));
  }
  s.merge("h", "e");
  s.merge("l", "l");
  s.merge("he", "ll");
  s.merge("hell", "o");
  s.merge(" ", "w");
  s.merge("o", "r");
  constexpr uint8_t kControl = format::kTokenSpecial | format::kTokenAdded;
  s.header.bos_token = s.add("<bos>", kControl);
  s.header.eos_token = s.add("<eos>", kControl);
  s.added = {s.header.bos_token, s.header.eos_token, s.add("<tool>", format::kTokenAdded)};
  s.header.flags = format::kAddBos;
  s.put_in_order();
  return s;
}

inline constexpr char kMark[] = "\xE2\x96\x81";  // U+2581

// SentencePiece: "a" "b" "c" and the mark as characters, "ab", mark + "a", two marks; bytes on
// request.
inline TokenizerSection sentencepiece_section(uint32_t flags, bool has_bytes) {
  TokenizerSection s(format::TokenizerKind::kSentencePieceBpe, format::PreTokenizer::kSpaceRuns);
  constexpr uint8_t kControl = format::kTokenSpecial | format::kTokenAdded;
  s.header.flags = flags;
  s.header.unknown_token = s.add("<unk>", kControl);
  s.header.bos_token = s.add("<s>", kControl);
  s.header.eos_token = s.add("</s>", kControl);
  s.added = {0, 1, 2};
  if (has_bytes) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      s.byte_tokens[byte] = s.add(std::string(1, static_cast<char>(byte)), format::kTokenByte);
    }
  }
  for (const char* text : {"a", "b", "c", kMark}) s.sorted.push_back(s.add(text));
  const auto id = [&s](std::string_view text) {
    // The last one: "a" is also a byte token.
    for (uint32_t i = static_cast<uint32_t>(s.texts.size()); i-- > 0;) {
      if (s.texts[i] == text) return i;
    }
    return format::kNone;
  };
  const auto merge = [&](const std::string& left, const std::string& right) {
    const uint32_t result = s.add(left + right);
    s.merges.push_back({id(left), id(right), static_cast<uint32_t>(s.merges.size()), result});
  };
  merge("a", "b");
  merge(kMark, "a");
  merge(kMark, kMark);
  s.put_in_order();
  return s;
}

// An open tokenizer and its section.
class OpenTokenizer {
 public:
  explicit OpenTokenizer(const TokenizerSection& section) : bytes_(section.bytes()) {
    status_ = tokenizer_open(bytes_, static_cast<uint32_t>(section.texts.size()), &tokenizer_);
  }
  OpenTokenizer(const OpenTokenizer&) = delete;
  OpenTokenizer& operator=(const OpenTokenizer&) = delete;

  [[nodiscard]] Status status() const { return status_; }
  [[nodiscard]] const Tokenizer& get() const { return tokenizer_; }

  [[nodiscard]] Tokens encode(std::string_view text, const EncodeOptions& options) const {
    std::vector<uint8_t> workspace((3 * text.size() + 1) * kEncodeBytesPerSymbol);
    Tokens tokens(3 * text.size() + 3);
    size_t n_tokens = 0;
    if (tokenizer_encode(tokenizer_, text, options, workspace, tokens, &n_tokens) != Status::kOk) {
      return {format::kNone};
    }
    tokens.resize(n_tokens);
    return tokens;
  }
  // The tokens' texts with bars between them, to be read.
  [[nodiscard]] std::string pieces(std::string_view text, const EncodeOptions& options) const {
    std::string shown;
    for (const uint32_t token : encode(text, options)) {
      if (!shown.empty()) shown += '|';
      const std::span<const char> piece = token_text(tokenizer_, token);
      shown.append(piece.data(), piece.size());
    }
    return shown;
  }

 private:
  std::vector<uint8_t> bytes_;
  Tokenizer tokenizer_ = {};
  Status status_ = Status::kOk;
};

}  // namespace cria::test
