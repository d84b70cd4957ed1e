// The rules around the merges: added tokens, prepended spaces, unknown characters, errors.
#include <gtest/gtest.h>

#include "tests/unit/runtime/tokenizer_section.h"

namespace cria {
namespace {

using format::PreTokenizer;
using test::byte_level_section;
using test::kMark;
using test::OpenTokenizer;
using test::sentencepiece_section;
using test::TokenizerSection;
using test::Tokens;

constexpr EncodeOptions kPlain = {false, false, false};
constexpr EncodeOptions kParse = {false, true, false};
constexpr EncodeOptions kAdd = {true, false, false};
constexpr EncodeOptions kContinue = {false, false, true};

// Writes U+2581 as an underscore, to be read.
std::string shown(std::string pieces) {
  for (size_t at = pieces.find(kMark); at != std::string::npos; at = pieces.find(kMark)) {
    pieces.replace(at, 3, "_");
  }
  return pieces;
}

std::string sp_pieces(const TokenizerSection& section, const std::string& text,
                      const EncodeOptions& options) {
  const OpenTokenizer tokenizer(section);
  EXPECT_EQ(tokenizer.status(), Status::kOk);
  return shown(tokenizer.pieces(text, options));
}

TEST(TokenizerEncodeTest, MergesStayInsideWords) {
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kGpt2));
  EXPECT_EQ(tokenizer.pieces("hello world", kPlain), "hello| w|or|l|d");
  EXPECT_EQ(tokenizer.pieces("", kPlain), "");
}

TEST(TokenizerEncodeTest, ByteLevelTakesAnyBytes) {
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kLlama3));
  EXPECT_EQ(tokenizer.encode("\xF0\x9F \xFF", kPlain), (Tokens{0xf0, 0x9f, ' ', 0xff}));
}

TEST(TokenizerEncodeTest, BosAndEosAreAddedAsTheTokenizerSays) {
  TokenizerSection section = byte_level_section(PreTokenizer::kGpt2);
  EXPECT_EQ(OpenTokenizer(section).pieces("he", kAdd), "<bos>|he");
  section.header.flags = format::kAddBos | format::kAddEos;
  EXPECT_EQ(OpenTokenizer(section).pieces("he", kAdd), "<bos>|he|<eos>");
  EXPECT_EQ(OpenTokenizer(section).pieces("", kAdd), "<bos>|<eos>");
  section.header.flags = 0;
  EXPECT_EQ(OpenTokenizer(section).pieces("he", kAdd), "he");
}

TEST(TokenizerEncodeTest, SpecialTokensAreFoundOnlyWhenAskedFor) {
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kGpt2));
  EXPECT_EQ(tokenizer.pieces("he<eos>he", kParse), "he|<eos>|he");
  EXPECT_EQ(tokenizer.pieces("<eos>", kPlain), "<|e|o|s|>");
  // An added token that is not special is text like any other.
  EXPECT_EQ(tokenizer.pieces("he<tool>", kPlain), "he|<tool>");
}

TEST(TokenizerEncodeTest, TheLongestAddedTokenCounts) {
  TokenizerSection section = byte_level_section(PreTokenizer::kGpt2);
  section.added.push_back(section.add("<tool>s", format::kTokenAdded));
  section.put_in_order();
  EXPECT_EQ(OpenTokenizer(section).pieces("<tool>s<tool>", kPlain), "<tool>s|<tool>");
}

TEST(TokenizerEncodeTest, AddedTokensSwallowSpaceAsTheySay) {
  TokenizerSection section = byte_level_section(PreTokenizer::kGpt2);
  section.added.push_back(section.add("<l>", format::kTokenAdded | format::kTokenStripLeft));
  section.added.push_back(section.add("<r>", format::kTokenAdded | format::kTokenStripRight));
  section.put_in_order();
  const OpenTokenizer tokenizer(section);
  EXPECT_EQ(tokenizer.pieces("h \xE3\x80\x80 <l> h", kPlain), "h|<l>| |h");
  EXPECT_EQ(tokenizer.pieces("h <r> \n\xC2\xA0h", kPlain), "h| |<r>|h");
  EXPECT_EQ(tokenizer.pieces("<r> <l>", kPlain), "<r>|<l>");
}

TEST(TokenizerEncodeTest, IgnoreMergesTakesWholeWords) {
  TokenizerSection section = byte_level_section(PreTokenizer::kGpt2);
  section.sorted = {section.add("xyz"), section.id("he")};
  section.put_in_order();
  EXPECT_EQ(OpenTokenizer(section).pieces("xyz he", kPlain), "x|y|z| |he");
  section.header.flags |= format::kIgnoreMerges;
  EXPECT_EQ(OpenTokenizer(section).pieces("xyz he", kPlain), "xyz| |he");
}

TEST(TokenizerEncodeTest, MissingBytesAreUnknownOrLeftOut) {
  TokenizerSection section = byte_level_section(PreTokenizer::kWhole);
  section.byte_tokens['x'] = format::kNone;
  EXPECT_EQ(OpenTokenizer(section).pieces("hxxe", kPlain), "he");
  section.header.unknown_token = section.add("<unk>");
  EXPECT_EQ(OpenTokenizer(section).pieces("hxxe", kPlain), "h|<unk>|<unk>|e");
  section.header.flags |= format::kFuseUnknown;
  EXPECT_EQ(OpenTokenizer(section).pieces("hxxe", kPlain), "h|<unk>|e");
}

TEST(TokenizerEncodeTest, PrefixSpaceOfByteLevel) {
  TokenizerSection section = byte_level_section(PreTokenizer::kGpt2);
  section.header.flags |= format::kAddPrefixSpace;
  const OpenTokenizer tokenizer(section);
  EXPECT_EQ(tokenizer.pieces("wh", kPlain), " w|h");
  EXPECT_EQ(tokenizer.pieces(" wh", kPlain), " w|h");
  EXPECT_EQ(tokenizer.pieces("wh", kContinue), "w|h");
}

TEST(TokenizerEncodeTest, SpaceIsPrependedToEveryTextBetweenAddedTokens) {
  const TokenizerSection section = sentencepiece_section(format::kPrependSpace, false);
  EXPECT_EQ(sp_pieces(section, "ab", kPlain), "_|ab");
  EXPECT_EQ(sp_pieces(section, " ab", kPlain), "__|ab");
  EXPECT_EQ(sp_pieces(section, "", kPlain), "");
  EXPECT_EQ(sp_pieces(section, "ab", kContinue), "ab");
  EXPECT_EQ(sp_pieces(section, "<s>a<s> a", kParse), "<s>|_a|<s>|_|_a");
}

TEST(TokenizerEncodeTest, ThePrependedSpaceOfPlainTextIsPlain) {
  TokenizerSection section = sentencepiece_section(format::kPrependSpace, false);
  const auto special =
      static_cast<uint8_t>(format::kTokenAdded | format::kTokenSpecial | format::kTokenNormalized);
  const uint32_t mark = section.add(test::kMark, special);
  section.added.push_back(mark);
  section.put_in_order();
  const OpenTokenizer tokenizer(section);
  const auto has_mark = [&](std::string_view text, const EncodeOptions& options) {
    const test::Tokens tokens = tokenizer.encode(text, options);
    return std::find(tokens.begin(), tokens.end(), mark) != tokens.end();
  };
  for (const char* text : {"b", "ab", " b", "b <s>b", "<s>b"}) {
    EXPECT_FALSE(has_mark(text, kPlain)) << text;
    EXPECT_TRUE(has_mark(text, kParse)) << text;
  }
}

TEST(TokenizerEncodeTest, SpaceIsPrependedOnlyAtTheStart) {
  const TokenizerSection section =
      sentencepiece_section(format::kPrependSpace | format::kPrependOnlyFirst, false);
  EXPECT_EQ(sp_pieces(section, "a<s>a", kParse), "_a|<s>|a");
  EXPECT_EQ(sp_pieces(section, "<s>a", kParse), "<s>|a");
}

TEST(TokenizerEncodeTest, SpaceIsNotPrependedBeforeASpace) {
  const TokenizerSection section =
      sentencepiece_section(format::kPrependSpace | format::kPrependUnlessSpace, false);
  EXPECT_EQ(sp_pieces(section, "a", kPlain), "_a");
  EXPECT_EQ(sp_pieces(section, " a", kPlain), "_a");
  EXPECT_EQ(sp_pieces(section, std::string(kMark) + "a", kPlain), "_a");
  EXPECT_EQ(sp_pieces(section, "<s> a<s>a", kParse), "<s>|_a|<s>|_a");
}

TEST(TokenizerEncodeTest, UnknownCharactersBecomeBytesOrUnknown) {
  const std::string llama = "\xF0\x9F\xA6\x99";
  EXPECT_EQ(sp_pieces(sentencepiece_section(0, false), "a" + llama + llama + "b", kPlain),
            "a|<unk>|<unk>|b");
  EXPECT_EQ(
      sp_pieces(sentencepiece_section(format::kFuseUnknown, false), "a" + llama + "zb", kPlain),
      "a|<unk>|b");
  EXPECT_EQ(
      sp_pieces(sentencepiece_section(format::kByteFallback, true), "a" + llama + "b", kPlain),
      "a|\xF0|\x9F|\xA6|\x99|b");
}

TEST(TokenizerEncodeTest, InvalidUtf8BecomesTheReplacementCharacter) {
  EXPECT_EQ(sp_pieces(sentencepiece_section(format::kByteFallback, true), "a\xFF\xE2\x96", kPlain),
            "a|\xEF|\xBF|\xBD|\xEF|\xBF|\xBD");
}

TEST(TokenizerEncodeTest, NormalizedTokensAreFoundBehindASpace) {
  TokenizerSection section = sentencepiece_section(format::kPrependSpace, false);
  for (const uint32_t token : section.added) {
    section.flags[token] |= format::kTokenNormalized | format::kTokenAfterSpace;
  }
  EXPECT_EQ(sp_pieces(section, "<s>ab", kParse), "<s>|ab");
  EXPECT_EQ(sp_pieces(section, "a <s>", kParse), "_a|<s>");
  EXPECT_EQ(sp_pieces(section, "a<s>", kParse), "_a|<unk>|<unk>|<unk>");
  EXPECT_EQ(sp_pieces(section, "  <s>", kParse), "__|<s>");
}

TEST(TokenizerEncodeTest, NormalizedTokensMayHoldSpaces) {
  TokenizerSection section = sentencepiece_section(0, false);
  section.added.push_back(
      section.add(std::string("a") + kMark + "c", format::kTokenAdded | format::kTokenNormalized));
  section.put_in_order();
  EXPECT_EQ(sp_pieces(section, "ba cb", kPlain), "b|a_c|b");
  EXPECT_EQ(sp_pieces(section, std::string("a") + kMark + "c", kPlain), "a_c");
}

TEST(TokenizerEncodeTest, SaysWhenTheOutputIsTooSmall) {
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kGpt2));
  const std::string text = "hello world";  // five tokens and BOS
  std::vector<uint8_t> workspace(text.size() * kEncodeBytesPerSymbol);
  size_t n_tokens = 0;
  for (size_t capacity = 0; capacity < 6; ++capacity) {
    Tokens tokens(capacity);
    EXPECT_EQ(tokenizer_encode(tokenizer.get(), text, kAdd, workspace, tokens, &n_tokens),
              Status::kBufferTooSmall);
  }
  Tokens tokens(6);
  EXPECT_EQ(tokenizer_encode(tokenizer.get(), text, kAdd, workspace, tokens, &n_tokens),
            Status::kOk);
  EXPECT_EQ(n_tokens, 6U);
}

TEST(TokenizerEncodeTest, NeedsWorkspaceForTheLongestWord) {
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kGpt2));
  Tokens tokens(64);
  size_t n_tokens = 0;
  std::vector<uint8_t> workspace(6 * kEncodeBytesPerSymbol);
  EXPECT_EQ(tokenizer_encode(tokenizer.get(), "hello world", kPlain, workspace, tokens, &n_tokens),
            Status::kOk);
  workspace.resize(6 * kEncodeBytesPerSymbol - 1);
  EXPECT_EQ(tokenizer_encode(tokenizer.get(), "hello world", kPlain, workspace, tokens, &n_tokens),
            Status::kTextTooLong);
}

}  // namespace
}  // namespace cria
