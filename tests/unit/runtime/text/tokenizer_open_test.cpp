// tokenizer_open refuses what is not as the format says, and nothing it accepts does harm.
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/runtime/text/tokenizer_section.h"

namespace cria {
namespace {

using format::kNone;
using format::PreTokenizer;
using test::byte_level_section;
using test::OpenTokenizer;
using test::sentencepiece_section;
using test::TokenizerSection;
using test::Tokens;

constexpr uint32_t kSentencePieceFlags = format::kAddBos | format::kByteFallback |
                                         format::kPrependSpace | format::kFuseUnknown |
                                         format::kStripSpace;

TokenizerSection good_section() { return byte_level_section(PreTokenizer::kStages); }

TEST(TokenizerOpenTest, OpensWhatIsWellFormed) {
  EXPECT_EQ(OpenTokenizer(good_section()).status(), Status::kOk);
  EXPECT_EQ(OpenTokenizer(sentencepiece_section(kSentencePieceFlags, true)).status(), Status::kOk);
  EXPECT_EQ(OpenTokenizer(sentencepiece_section(0, false)).status(), Status::kOk);
}

TEST(TokenizerOpenTest, RefusesMoreTokensThanTheModelHas) {
  const TokenizerSection section = good_section();
  const std::vector<uint8_t> bytes = section.bytes();
  const auto n_tokens = static_cast<uint32_t>(section.texts.size());
  Tokenizer tokenizer = {};
  EXPECT_EQ(tokenizer_open(bytes, n_tokens + 1, &tokenizer), Status::kOk);
  EXPECT_EQ(tokenizer_open(bytes, n_tokens, &tokenizer), Status::kOk);
  EXPECT_EQ(tokenizer_open(bytes, n_tokens - 1, &tokenizer), Status::kInvalidModel);
}

TEST(TokenizerOpenTest, RefusesASectionThatIsNotAligned) {
  std::vector<uint8_t> bytes = good_section().bytes();
  bytes.insert(bytes.begin(), 0);
  Tokenizer tokenizer = {};
  EXPECT_EQ(tokenizer_open(std::span(bytes).subspan(1), 1 << 20, &tokenizer), Status::kMisaligned);
}

struct Damage {
  const char* name;
  std::function<void(TokenizerSection*)> apply;
};

TEST(TokenizerOpenTest, RefusesEveryBrokenRule) {
  const uint32_t n = static_cast<uint32_t>(good_section().texts.size());
  const Damage kDamages[] = {
      {"kind", [](auto* s) { s->header.kind = 3; }},
      {"pre_tokenizer", [](auto* s) { s->header.pre_tokenizer = 7; }},
      {"pre_tokenizer without tables", [](auto* s) { s->pre_tokenizer.clear(); }},
      {"tables that are not used",
       [](auto* s) { s->header.pre_tokenizer = static_cast<uint32_t>(PreTokenizer::kWhole); }},
      {"pre_tokenizer of the other kind",
       [](auto* s) { s->header.pre_tokenizer = static_cast<uint32_t>(PreTokenizer::kSpaceRuns); }},
      {"flags", [](auto* s) { s->header.flags |= format::kKnownTokenizerFlags + 1; }},
      {"reserved", [](auto* s) { s->header.reserved[11] = 1; }},
      {"bos_token", [n](auto* s) { s->header.bos_token = n; }},
      {"no BOS to add", [](auto* s) { s->header.bos_token = kNone; }},
      {"no EOS to add",
       [](auto* s) {
         s->header.eos_token = kNone;
         s->header.flags |= format::kAddEos;
       }},
      {"unknown_token", [n](auto* s) { s->header.unknown_token = n; }},
      {"longest_token", [](auto* s) { s->header.longest_token = 8; }},
      {"token flags", [](auto* s) { s->flags[3] = format::kKnownTokenFlags + 1; }},
      {"sorted id", [n](auto* s) { s->sorted = {n}; }},
      {"sorted order",
       [](auto* s) {
         s->sorted = {2, 1};
       }},
      {"sorted twice",
       [](auto* s) {
         s->sorted = {1, 1};
       }},
      {"sorted special", [](auto* s) { s->sorted = {s->header.bos_token}; }},
      {"sorted empty", [](auto* s) { s->sorted = {s->add("")}; }},
      {"merge right", [n](auto* s) { s->merges[0].right = n; }},
      {"merge result", [n](auto* s) { s->merges[0].result = n; }},
      {"merge result of other text", [](auto* s) { s->merges[0].result = s->merges[1].result; }},
      {"merge into a special token",
       [](auto* s) { s->flags[s->merges[0].result] |= format::kTokenSpecial; }},
      {"merges not in order",
       [](auto* s) {
         // Two of one left part.
         s->merge("h", "h");
         s->put_in_order();
         std::swap(s->merges[s->merges[0].left == s->merges[1].left ? 0 : 2],
                   s->merges[s->merges[0].left == s->merges[1].left ? 1 : 3]);
       }},
      {"merge twice", [](auto* s) { s->merges.insert(s->merges.begin(), s->merges[0]); }},
      {"byte token id", [n](auto* s) { s->byte_tokens[9] = n; }},
      {"byte token of another byte", [](auto* s) { s->byte_tokens[9] = 10; }},
      {"byte token longer than a byte", [](auto* s) { s->byte_tokens['h'] = s->id("he"); }},
      {"special byte token", [](auto* s) { s->flags[9] |= format::kTokenSpecial; }},
      {"added id", [n](auto* s) { s->added = {n}; }},
      {"added without its flag", [](auto* s) { s->added = {3}; }},
      {"added twice", [](auto* s) { s->added.insert(s->added.begin(), s->added[0]); }},
      {"added with one text",
       [](auto* s) { s->added.insert(s->added.begin(), s->add("<tool>", format::kTokenAdded)); }},
      {"added with too many lengths",
       [](auto* s) {
         // 1 + 2 + ... + 128 bytes is more than 2^13.
         for (size_t length = 1; length <= 128; ++length) {
           s->added.push_back(s->add(std::string(length, 'z'), format::kTokenAdded));
         }
         s->put_in_order();
       }},
      {"added not in order", [](auto* s) { std::reverse(s->added.begin(), s->added.end()); }},
      {"added empty", [](auto* s) { s->added.push_back(s->add("", format::kTokenAdded)); }},
  };
  for (const Damage& damage : kDamages) {
    TokenizerSection section = good_section();
    damage.apply(&section);
    EXPECT_EQ(OpenTokenizer(section).status(), Status::kInvalidModel) << damage.name;
  }
}

TEST(TokenizerOpenTest, RefusesEveryTruncationAndEveryExtraByte) {
  std::vector<uint8_t> bytes = good_section().bytes();
  Tokenizer tokenizer = {};
  for (size_t n = 0; n < bytes.size(); ++n) {
    // A copy of its own, so that a read past the end is seen by sanitizers.
    const std::vector<uint8_t> part(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n));
    ASSERT_EQ(tokenizer_open(part, 1 << 20, &tokenizer), Status::kInvalidModel) << n;
  }
  bytes.push_back(0);
  EXPECT_EQ(tokenizer_open(bytes, 1 << 20, &tokenizer), Status::kInvalidModel);
}

// Runs text through a tokenizer that opened: ids must be in bounds, texts within theirs.
void use(const Tokenizer& tokenizer, const std::string& text) {
  std::vector<uint8_t> workspace((3 * text.size() + 1) * kEncodeBytesPerSymbol);
  Tokens tokens(3 * text.size() + 3);
  std::vector<char> out(tokenizer.header.longest_token * size_t{3} + 8);
  for (const bool parse : {false, true}) {
    size_t n_tokens = 0;
    const Status status =
        tokenizer_encode(tokenizer, text, {true, parse, false}, workspace, tokens, &n_tokens);
    if (status != Status::kOk) continue;
    DecodeState state = {};
    for (size_t i = 0; i < n_tokens; ++i) {
      ASSERT_LT(tokens[i], tokenizer.header.n_tokens);
      ASSERT_LE(tokenizer_decode(tokenizer, tokens[i], true, &state, out), out.size());
    }
    tokenizer_decode_end(&state, out);
  }
}

void flip_every_bit(const TokenizerSection& section, const std::string& text) {
  std::vector<uint8_t> bytes = section.bytes();
  size_t opened = 0;
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const auto mask = static_cast<uint8_t>(1u << bit % 8);
    bytes[bit / 8] ^= mask;
    Tokenizer tokenizer = {};
    if (tokenizer_open(bytes, 1 << 20, &tokenizer) == Status::kOk) {
      ASSERT_NO_FATAL_FAILURE(use(tokenizer, text)) << bit;
      ++opened;
    }
    bytes[bit / 8] ^= mask;
  }
  // Ranks, flags and texts can change without a rule being broken.
  EXPECT_GT(opened, 0U);
  EXPECT_LT(opened, 8 * bytes.size());
}

TEST(TokenizerOpenTest, EveryFlippedBitIsRefusedOrHarmless) {
  const std::string text = "hello <bos>world <tool> ab\xE2\x96\x81 <s>\xF0\x9F\xA6\x99 \xFF 12";
  flip_every_bit(good_section(), text);
  flip_every_bit(sentencepiece_section(kSentencePieceFlags, true), text);
}

}  // namespace
}  // namespace cria
