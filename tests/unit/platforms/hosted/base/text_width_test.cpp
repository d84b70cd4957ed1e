// Columns as terminals count them.
#include "platforms/hosted/base/text_width.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/support/seeds.h"

namespace cria::hosted {
namespace {

std::string utf8(std::initializer_list<uint32_t> codes) {
  std::string text;
  for (const uint32_t code : codes) append_character(&text, code);
  return text;
}

TEST(TextWidth, LettersTakeOneColumnAndEastAsianOnesTwo) {
  EXPECT_EQ(columns_of(""), 0u);
  EXPECT_EQ(columns_of("model"), 5u);
  EXPECT_EQ(columns_of(utf8({0xe9, 0x416, 0x5d0})), 3u);
  EXPECT_EQ(columns_of(utf8({0x4f60, 0x597d})), 4u);          // Han
  EXPECT_EQ(columns_of(utf8({0x3042, 0x30a2, 0xff21})), 6u);  // kana, a fullwidth letter
  EXPECT_EQ(columns_of(utf8({0xff71})), 1u);                  // a halfwidth one
  EXPECT_EQ(columns_of(utf8({0xac00})), 2u);                  // a Hangul syllable
  EXPECT_EQ(columns_of(utf8({0x1100, 0x1161, 0x11a8})), 2u);  // the same, letter by letter
}

TEST(TextWidth, MarksThatCombineTakeNone) {
  EXPECT_EQ(columns_of(utf8({'e', 0x301})), 1u);
  EXPECT_EQ(columns_of(utf8({0x301})), 0u);
  EXPECT_EQ(columns_of(utf8({'a', 0x200b, 0x200d, 'b'})), 2u);
  EXPECT_EQ(columns_of(utf8({0x915, 0x94d, 0x200d, 0x937})), 2u);  // a joiner between letters
}

TEST(TextWidth, AnEmojiOfSeveralCharactersCountsOnce) {
  EXPECT_EQ(columns_of(utf8({0x1f642})), 2u);
  EXPECT_EQ(columns_of(utf8({0x1f44d, 0x1f3fd})), 2u);                           // a skin tone
  EXPECT_EQ(columns_of(utf8({0x1f468, 0x200d, 0x1f469, 0x200d, 0x1f467})), 2u);  // a family
  EXPECT_EQ(columns_of(utf8({0x2764})), 1u);
  EXPECT_EQ(columns_of(utf8({0x2764, 0xfe0f})), 2u);  // as an emoji
  EXPECT_EQ(columns_of(utf8({0x2764, 0xfe0f, 0x200d, 0x1f525})), 2u);
  EXPECT_EQ(columns_of(utf8({0x1f1eb, 0x1f1f7})), 2u);  // a flag
  EXPECT_EQ(columns_of(utf8({0x1f642, 0x1f642})), 4u);
}

TEST(TextWidth, BytesThatAreNoCharacterTakeOneEach) {
  EXPECT_EQ(columns_of("\xff\xfe"), 2u);
  EXPECT_EQ(columns_of("a\xe4\xbd"), 3u);
  EXPECT_EQ(columns_of("\xed\xa0\x80"), 3u);
}

TEST(TextWidth, TheRangesAreInOrder) {
  uint32_t behind = 0;
  for (const WidthRange& range : width_ranges()) {
    EXPECT_LE(behind, range.first);
    EXPECT_LE(range.first, range.last);
    EXPECT_TRUE(range.columns == 0 || range.columns == 2);
    behind = range.last + 1;
  }
  EXPECT_GT(width_ranges().size(), 100u);
}

TEST(TextWidth, ABeginningFitsAndTheNextCharacterDoesNot) {
  const std::string text = utf8({'a', 0x4f60, 'e', 0x301, 0x1f468, 0x200d, 0x1f469, 'b'});
  for (size_t columns = 0; columns < 10; ++columns) {
    const size_t n = bytes_within(text, columns);
    EXPECT_LE(columns_of(text.substr(0, n)), columns);
    if (n < text.size()) {
      size_t next = n;
      next_character(text, &next);
      EXPECT_GT(columns_of(text.substr(0, next)), columns);
    }
  }
  EXPECT_EQ(bytes_within(text, 100), text.size());
}

TEST(TextWidth, CharactersSurviveTheWayThereAndBack) {
  for (uint32_t code = 1; code <= 0x10ffff; code += code < 0x3000 ? 1 : 61) {
    if (code >= 0xd800 && code < 0xe000) continue;
    const std::string text = utf8({code});
    size_t at = 0;
    EXPECT_EQ(next_character(text, &at), code);
    EXPECT_EQ(at, text.size());
  }
  EXPECT_EQ(utf8({0xd800}), utf8({kReplacement}));
}

void walk_random_texts(uint32_t seed) {
  std::mt19937 rng(seed);
  for (int round = 0; round < 3000; ++round) {
    std::string text(rng() % 9, '\0');
    for (char& c : text) c = static_cast<char>(rng());
    size_t n = 0;
    for (size_t at = 0; at < text.size(); ++n) next_character(text, &at);
    EXPECT_LE(columns_of(text), 2 * n) << "round " << round;
  }
}

TEST(TextWidth, AnyBytesAreWalkedToTheirEnd) { test::for_each_seed({3}, walk_random_texts); }

}  // namespace
}  // namespace cria::hosted
