// Decoding as a stream: whole characters only, whatever the tokens cut.
#include <gtest/gtest.h>

#include "tests/unit/runtime/text/tokenizer_section.h"

namespace cria {
namespace {

using format::PreTokenizer;
using test::byte_level_section;
using test::kMark;
using test::OpenTokenizer;
using test::sentencepiece_section;
using test::TokenizerSection;
using test::Tokens;

// What each token gives, with bars between; the end of the stream after the last bar.
std::string stream(const Tokenizer& tokenizer, const Tokens& tokens, bool show_special) {
  DecodeState state = {};
  std::vector<char> out(tokenizer.header.longest_token * size_t{3} + 8);
  std::string shown;
  for (const uint32_t token : tokens) {
    shown.append(out.data(), tokenizer_decode(tokenizer, token, show_special, &state, out));
    shown += '|';
  }
  shown.append(out.data(), tokenizer_decode_end(&state, out));
  return shown;
}

constexpr char kReplacement[] = "\xEF\xBF\xBD";

TEST(TokenizerDecodeTest, HoldsBackUnfinishedCharacters) {
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kStages));
  EXPECT_EQ(stream(tokenizer.get(), {0xf0, 0x9f, 0xa6, 0x99, 'a'}, false),
            "|||\xF0\x9F\xA6\x99|a|");
  EXPECT_EQ(stream(tokenizer.get(), {0xc3, 0xa9, 0xe2, 0x96, 0x81}, false),
            "|\xC3\xA9|||\xE2\x96\x81|");
}

TEST(TokenizerDecodeTest, WhatNeverBecomesACharacterIsReplaced) {
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kStages));
  const std::string r = kReplacement;
  EXPECT_EQ(stream(tokenizer.get(), {0xff, 'a'}, false), r + "|a|");
  EXPECT_EQ(stream(tokenizer.get(), {0xe2, 0x96, 'a'}, false), "||" + r + "a|");
  EXPECT_EQ(stream(tokenizer.get(), {0xe2, 0x96, 0xff}, false), "||" + r + r + "|");
  EXPECT_EQ(stream(tokenizer.get(), {0xe2, 0x96, 0xc3, 0xa9}, false), "||" + r + "|\xC3\xA9|");
  EXPECT_EQ(stream(tokenizer.get(), {'a', 0xf0, 0x9f}, false), "a|||" + r);
}

TEST(TokenizerDecodeTest, SpecialTokensAreHiddenUnlessAskedFor) {
  const TokenizerSection section = byte_level_section(PreTokenizer::kStages);
  const OpenTokenizer tokenizer(section);
  const Tokens tokens = {section.header.bos_token, 'a', section.id("<tool>")};
  EXPECT_EQ(stream(tokenizer.get(), tokens, false), "|a|<tool>|");
  EXPECT_EQ(stream(tokenizer.get(), tokens, true), "<bos>|a|<tool>|");
}

TEST(TokenizerDecodeTest, TokensPastTheVocabularyGiveNothing) {
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kStages));
  EXPECT_EQ(stream(tokenizer.get(), {tokenizer.get().header.n_tokens, format::kNone}, true), "||");
}

TEST(TokenizerDecodeTest, MarksBecomeSpacesAndTheFirstIsDropped) {
  const TokenizerSection section = sentencepiece_section(format::kStripSpace, false);
  const OpenTokenizer tokenizer(section);
  const uint32_t mark_a = section.id(std::string(kMark) + "a");
  const uint32_t marks = section.id(std::string(kMark) + kMark);
  EXPECT_EQ(stream(tokenizer.get(), {mark_a, mark_a}, false), "a| a|");
  EXPECT_EQ(stream(tokenizer.get(), {section.header.bos_token, mark_a}, false), "|a|");
  EXPECT_EQ(stream(tokenizer.get(), {section.header.bos_token, mark_a}, true), "<s>| a|");
  EXPECT_EQ(stream(tokenizer.get(), {marks, mark_a}, false), " | a|");
  const TokenizerSection other = sentencepiece_section(0, false);
  EXPECT_EQ(stream(OpenTokenizer(other).get(), {mark_a}, false), " a|");
}

TEST(TokenizerDecodeTest, ByteTokensOfSentencePieceAreJoined) {
  const TokenizerSection section = sentencepiece_section(format::kByteFallback, true);
  const OpenTokenizer tokenizer(section);
  const auto byte = [&](uint8_t value) { return section.byte_tokens[value]; };
  const std::string r = kReplacement;
  EXPECT_EQ(stream(tokenizer.get(), {byte(0xc3), byte(0xa9)}, false), "|\xC3\xA9|");
  // A mark written as bytes is the character, not a space; a piece ends what waits.
  EXPECT_EQ(stream(tokenizer.get(), {byte(0xe2), byte(0x96), byte(0x81)}, false),
            "||\xE2\x96\x81|");
  EXPECT_EQ(stream(tokenizer.get(), {byte(0xe2), section.sorted[0]}, false), "|" + r + "a|");
}

TEST(TokenizerDecodeTest, SwallowedSpaceComesBack) {
  TokenizerSection section = sentencepiece_section(format::kStripSpace, false);
  section.flags[section.header.eos_token] |= format::kTokenNormalized | format::kTokenAfterSpace;
  const OpenTokenizer tokenizer(section);
  const uint32_t a = section.sorted[0];
  EXPECT_EQ(stream(tokenizer.get(), {section.header.eos_token, a, section.header.eos_token}, true),
            "</s>|a| </s>|");
}

TEST(TokenizerDecodeTest, ADamagedStateDoesNoHarm) {
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kStages));
  std::vector<char> out(tokenizer.get().header.longest_token * size_t{3} + 8);
  for (uint32_t n_pending = 0; n_pending < 256; ++n_pending) {
    DecodeState state = {{0xff, 'a', 0xe2, 0x80}, static_cast<uint8_t>(n_pending), 1};
    EXPECT_LE(tokenizer_decode(tokenizer.get(), 'a', false, &state, out), out.size());
    EXPECT_LT(state.n_pending, 4);
  }
}

}  // namespace
}  // namespace cria
