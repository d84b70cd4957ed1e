// White space and UTF-8.
#include "quant/text/unicode.h"

#include <gtest/gtest.h>

#include <string_view>

#include "quant/text/utf8.h"

namespace cria {
namespace {

TEST(UnicodeTest, KnowsWhiteSpace) {
  size_t spaces = 0;
  for (uint32_t code = 0; code <= 0x10ffff; ++code) {
    spaces += is_white_space(code) ? 1 : 0;
  }
  EXPECT_EQ(spaces, 25U);  // of the property White_Space
  for (const uint32_t code :
       {0x09, 0x0d, 0x20, 0x85, 0xa0, 0x1680, 0x2000, 0x200a, 0x2028, 0x3000}) {
    EXPECT_TRUE(is_white_space(code)) << code;
  }
  for (const uint32_t code : {0x1c, 0x200b, 0x180e, 0xfeff}) {
    EXPECT_FALSE(is_white_space(code)) << code;
  }
}

void expect_char(std::string_view text, uint32_t code, uint32_t n_bytes, bool complete) {
  const Utf8Char c = decode_utf8(text.data(), text.size());
  EXPECT_EQ(c.code, code) << text;
  EXPECT_EQ(c.n_bytes, n_bytes) << text;
  EXPECT_EQ(c.complete, complete) << text;
}

TEST(UnicodeTest, DecodesUtf8) {
  expect_char("a\x80", 'a', 1, true);
  expect_char("\xC2\x80", 0x80, 2, true);
  expect_char("\xDF\xBF", 0x7ff, 2, true);
  expect_char("\xE0\xA0\x80", 0x800, 3, true);
  expect_char("\xEF\xBF\xBF", 0xffff, 3, true);
  expect_char("\xF0\x90\x80\x80", 0x10000, 4, true);
  expect_char("\xF4\x8F\xBF\xBF", 0x10ffff, 4, true);
}

TEST(UnicodeTest, TakesAsFewInvalidBytesAsCanStartNoCharacter) {
  expect_char("\x80", kReplacementCharacter, 1, true);
  expect_char("\xC0\x80", kReplacementCharacter, 1, true);          // overlong
  expect_char("\xE0\x80\x80", kReplacementCharacter, 1, true);      // overlong
  expect_char("\xED\xA0\x80", kReplacementCharacter, 1, true);      // surrogate
  expect_char("\xF4\x90\x80\x80", kReplacementCharacter, 1, true);  // past U+10FFFF
  expect_char("\xF5", kReplacementCharacter, 1, true);
  expect_char("\xE2\x96g", kReplacementCharacter, 2, true);
  expect_char("\xF0\x9F\xA6g", kReplacementCharacter, 3, true);
}

TEST(UnicodeTest, TellsWhenTheTextEndsInsideACharacter) {
  expect_char("\xE2", kReplacementCharacter, 1, false);
  expect_char("\xE2\x96", kReplacementCharacter, 2, false);
  expect_char("\xF0\x9F\xA6", kReplacementCharacter, 3, false);
}

TEST(UnicodeTest, EveryCharacterSurvivesEncodingAndDecoding) {
  size_t decoded = 0;
  for (uint32_t code = 0x80; code <= 0x10ffff; ++code) {
    if (code >= 0xd800 && code <= 0xdfff) continue;
    char bytes[4];
    uint32_t n = 0;
    if (code >= 0x10000) {
      bytes[n++] = static_cast<char>(0xf0 | code >> 18);
      bytes[n++] = static_cast<char>(0x80 | (code >> 12 & 0x3f));
      bytes[n++] = static_cast<char>(0x80 | (code >> 6 & 0x3f));
    } else if (code >= 0x800) {
      bytes[n++] = static_cast<char>(0xe0 | code >> 12);
      bytes[n++] = static_cast<char>(0x80 | (code >> 6 & 0x3f));
    } else {
      bytes[n++] = static_cast<char>(0xc0 | code >> 6);
    }
    bytes[n++] = static_cast<char>(0x80 | (code & 0x3f));
    const Utf8Char c = decode_utf8(bytes, n);
    ASSERT_TRUE(c.code == code && c.n_bytes == n && c.complete) << code;
    ++decoded;
  }
  EXPECT_EQ(decoded, 0x110000U - 0x80U - 0x800U);
}

}  // namespace
}  // namespace cria
