// The rules around the merges: added tokens, prepended spaces, unknown characters, errors.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "quant/text/nfc.h"
#include "runtime/text/text_encoder.h"
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
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kStages));
  EXPECT_EQ(tokenizer.pieces("hello world", kPlain), "hello| w|or|l|d");
  EXPECT_EQ(tokenizer.pieces("", kPlain), "");
}

TEST(TokenizerEncodeTest, ByteLevelTakesAnyBytes) {
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kStages));
  EXPECT_EQ(tokenizer.encode("\xF0\x9F \xFF", kPlain), (Tokens{0xf0, 0x9f, ' ', 0xff}));
}

TEST(TokenizerEncodeTest, BosAndEosAreAddedAsTheTokenizerSays) {
  TokenizerSection section = byte_level_section(PreTokenizer::kStages);
  EXPECT_EQ(OpenTokenizer(section).pieces("he", kAdd), "<bos>|he");
  section.header.flags = format::kAddBos | format::kAddEos;
  EXPECT_EQ(OpenTokenizer(section).pieces("he", kAdd), "<bos>|he|<eos>");
  EXPECT_EQ(OpenTokenizer(section).pieces("", kAdd), "<bos>|<eos>");
  section.header.flags = 0;
  EXPECT_EQ(OpenTokenizer(section).pieces("he", kAdd), "he");
}

TEST(TokenizerEncodeTest, SpecialTokensAreFoundOnlyWhenAskedFor) {
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kStages));
  EXPECT_EQ(tokenizer.pieces("he<eos>he", kParse), "he|<eos>|he");
  EXPECT_EQ(tokenizer.pieces("<eos>", kPlain), "<|e|o|s|>");
  // An added token that is not special is text like any other.
  EXPECT_EQ(tokenizer.pieces("he<tool>", kPlain), "he|<tool>");
}

TEST(TokenizerEncodeTest, TheLongestAddedTokenCounts) {
  TokenizerSection section = byte_level_section(PreTokenizer::kStages);
  section.added.push_back(section.add("<tool>s", format::kTokenAdded));
  section.put_in_order();
  EXPECT_EQ(OpenTokenizer(section).pieces("<tool>s<tool>", kPlain), "<tool>s|<tool>");
}

TEST(TokenizerEncodeTest, AddedTokensSwallowSpaceAsTheySay) {
  TokenizerSection section = byte_level_section(PreTokenizer::kStages);
  section.added.push_back(section.add("<l>", format::kTokenAdded | format::kTokenStripLeft));
  section.added.push_back(section.add("<r>", format::kTokenAdded | format::kTokenStripRight));
  section.put_in_order();
  const OpenTokenizer tokenizer(section);
  EXPECT_EQ(tokenizer.pieces("h \xE3\x80\x80 <l> h", kPlain), "h|<l>| |h");
  EXPECT_EQ(tokenizer.pieces("h <r> \n\xC2\xA0h", kPlain), "h| |<r>|h");
  EXPECT_EQ(tokenizer.pieces("<r> <l>", kPlain), "<r>|<l>");
}

TEST(TokenizerEncodeTest, IgnoreMergesTakesWholeWords) {
  TokenizerSection section = byte_level_section(PreTokenizer::kStages);
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
  TokenizerSection section = byte_level_section(PreTokenizer::kStages);
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

// The pieces of a text that arrives in two parts; empty parts have none.
std::string in_parts(const OpenTokenizer& tokenizer, const std::string& text, size_t cut,
                     const EncodeOptions& first, const EncodeOptions& second) {
  const std::string one = tokenizer.pieces(text.substr(0, cut), first);
  const std::string two = tokenizer.pieces(text.substr(cut), second);
  return one + (one.empty() || two.empty() ? "" : "|") + two;
}

TEST(TokenizerEncodeTest, TextThatContinuesBetweenWordsEncodesAsTheWhole) {
  for (const uint32_t flags : {uint32_t{0}, uint32_t{format::kAddPrefixSpace}}) {
    TokenizerSection section = byte_level_section(PreTokenizer::kStages);
    section.header.flags = flags;
    const OpenTokenizer tokenizer(section);
    const std::string text = "wh hello world<tool>wor";
    const std::string whole = tokenizer.pieces(text, kPlain);
    // Before each space, before the added token, at the end.
    for (const size_t cut : {size_t{2}, size_t{8}, size_t{14}, text.size()}) {
      EXPECT_EQ(in_parts(tokenizer, text, cut, kPlain, kContinue), whole) << cut;
    }
    // After the added token the whole has a space in front, where the tokenizer puts one.
    const size_t behind = text.find("wor", 14);
    EXPECT_EQ(in_parts(tokenizer, text, behind, kPlain, flags == 0 ? kContinue : kPlain), whole);
    // No merge crosses a cut, and a word that is cut is not a word.
    EXPECT_NE(in_parts(tokenizer, text, 5, kPlain, kContinue), whole);
  }
}

TEST(TokenizerEncodeTest, TextThatContinuesGetsNoSpaceOfSentencePiece) {
  for (const uint32_t more :
       {uint32_t{0}, uint32_t{format::kPrependOnlyFirst}, uint32_t{format::kPrependUnlessSpace}}) {
    const OpenTokenizer tokenizer(sentencepiece_section(format::kPrependSpace | more, false));
    const std::string text = "ab c ab a";
    const std::string whole = shown(tokenizer.pieces(text, kPlain));
    // Inside a word where nothing merges, before a space and after one.
    for (const size_t cut : {size_t{2}, size_t{3}, size_t{4}, size_t{5}, size_t{7}}) {
      EXPECT_EQ(shown(in_parts(tokenizer, text, cut, kPlain, kContinue)), whole) << cut;
    }
    // Without the flag the second part gets a space of its own; a merge does not cross a cut.
    EXPECT_NE(shown(in_parts(tokenizer, text, 5, kPlain, kPlain)), whole);
    EXPECT_NE(shown(in_parts(tokenizer, text, 1, kPlain, kContinue)), whole);
  }
}

TEST(TokenizerEncodeTest, TextThatContinuesGetsBosAllTheSame) {
  constexpr EncodeOptions kBoth = {true, false, true};
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kStages));
  EXPECT_EQ(tokenizer.pieces("he", kBoth), "<bos>|he");
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
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kStages));
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
  const OpenTokenizer tokenizer(byte_level_section(PreTokenizer::kStages));
  Tokens tokens(64);
  size_t n_tokens = 0;
  std::vector<uint8_t> workspace(6 * kEncodeBytesPerSymbol);
  EXPECT_EQ(tokenizer_encode(tokenizer.get(), "hello world", kPlain, workspace, tokens, &n_tokens),
            Status::kOk);
  workspace.resize(6 * kEncodeBytesPerSymbol - 1);
  EXPECT_EQ(tokenizer_encode(tokenizer.get(), "hello world", kPlain, workspace, tokens, &n_tokens),
            Status::kTextTooLong);
}

// Byte-level text that is normalized, where "<eos>" is looked for afterwards.
TokenizerSection normalizing_section() {
  TokenizerSection section = byte_level_section(PreTokenizer::kStages);
  section.header.flags |= format::kNfc;
  section.flags[section.header.eos_token] |= format::kTokenNormalized;
  return section;
}

TEST(TokenizerEncodeTest, TextBetweenAddedTokensIsNormalized) {
  if (!kHasNfc) GTEST_SKIP() << "built without normalization";
  const OpenTokenizer tokenizer(normalizing_section());
  const OpenTokenizer plain(byte_level_section(PreTokenizer::kStages));
  // A letter with its mark, Hangul in parts, marks out of order, and bytes that are no character.
  const std::string apart = "he\xCC\x81 \xE1\x84\x80\xE1\x85\xA1 e\xCC\x81\xCC\xA3 \xFF\xCC\x81";
  const std::string composed = "h\xC3\xA9 \xEA\xB0\x80 \xE1\xBA\xB9\xCC\x81 \xFF\xCC\x81";
  EXPECT_EQ(tokenizer.encode(apart, kPlain), plain.encode(composed, kPlain));
  EXPECT_NE(tokenizer.encode(apart, kPlain), plain.encode(apart, kPlain));
  EXPECT_EQ(tokenizer.encode("hello", kPlain), plain.encode("hello", kPlain));
  // No mark reaches across an added token.
  EXPECT_EQ(tokenizer.pieces("e<tool>\xCC\x81", kPlain), "e|<tool>|\xCC|\x81");
}

TEST(TokenizerEncodeTest, NormalizedTextKeepsWhatIsTrusted) {
  if (!kHasNfc) GTEST_SKIP() << "built without normalization";
  const OpenTokenizer tokenizer(normalizing_section());
  // Three bytes become two: the tokens stand elsewhere than they were written.
  const std::string text = "e\xCC\x81<eos><eos>e\xCC\x81";
  const auto encode = [&](TextRange range) {
    std::vector<uint8_t> workspace(text.size() * 2 * kEncodeBytesPerSymbol);
    std::vector<uint32_t> tokens(text.size());
    TokenOutput output = {tokens, 0, false};
    bool ends_with_added = false;
    const AddedTokens added(tokenizer.get());
    const TextToEncode input = {text, {&range, 1}, true, TextStart::kNothing};
    EXPECT_EQ(encode_text(tokenizer.get(), added, input, workspace, &output, &ends_with_added),
              Status::kOk);
    std::string shown;
    for (size_t i = 0; i < output.n_tokens; ++i) {
      const auto piece = token_text(tokenizer.get(), tokens[i]);
      shown += piece.size() == 5 ? "[eos]" : std::string(piece.begin(), piece.end());
    }
    return shown;
  };
  EXPECT_EQ(encode({0, 8}), "\xC3\xA9<eos>[eos]\xC3\xA9");
  EXPECT_EQ(encode({8, 16}), "\xC3\xA9[eos]<eos>\xC3\xA9");
  EXPECT_EQ(encode({7, 9}), "\xC3\xA9<eos><eos>\xC3\xA9");
  EXPECT_EQ(encode({0, 3}), "\xC3\xA9[eos][eos]\xC3\xA9");
  EXPECT_EQ(encode({13, 16}), "\xC3\xA9[eos][eos]\xC3\xA9");
}

TEST(TokenizerEncodeTest, NormalizedTextTakesRoomInTheWorkspace) {
  if (!kHasNfc) GTEST_SKIP() << "built without normalization";
  TokenizerSection section = normalizing_section();
  section.flags[section.header.eos_token] &= static_cast<uint8_t>(~format::kTokenNormalized);
  const OpenTokenizer tokenizer(section);
  Tokens tokens(64);
  size_t n_tokens = 0;
  // Six bytes of text, rounded up, and the three symbols of its longest word.
  const std::string text = "e\xCC\x81 e\xCC\x81 ";
  std::vector<uint8_t> workspace(8 + 3 * kEncodeBytesPerSymbol);
  EXPECT_EQ(tokenizer_encode(tokenizer.get(), text, kPlain, workspace, tokens, &n_tokens),
            Status::kOk);
  workspace.resize(8 + 3 * kEncodeBytesPerSymbol - 1);
  EXPECT_EQ(tokenizer_encode(tokenizer.get(), text, kPlain, workspace, tokens, &n_tokens),
            Status::kTextTooLong);
  workspace.resize(5);
  EXPECT_EQ(tokenizer_encode(tokenizer.get(), text, kPlain, workspace, tokens, &n_tokens),
            Status::kTextTooLong);
}

}  // namespace
}  // namespace cria
