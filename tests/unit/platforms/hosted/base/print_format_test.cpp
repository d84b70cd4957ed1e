#include "platforms/hosted/base/print_format.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace cria::hosted {
namespace {

TEST(PrintFormat, GroupsDigitsInThrees) {
  EXPECT_EQ(grouped_digits(0), "0");
  EXPECT_EQ(grouped_digits(999), "999");
  EXPECT_EQ(grouped_digits(1000), "1,000");
  EXPECT_EQ(grouped_digits(123456), "123,456");
  EXPECT_EQ(grouped_digits(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(PrintFormat, ShortCountsHaveThreeDigits) {
  EXPECT_EQ(short_count(820), "820");
  EXPECT_EQ(short_count(3803904), "3.80 M");
  EXPECT_EQ(short_count(12345), "12.3 k");
  EXPECT_EQ(short_count(1235814400), "1.24 G");
}

TEST(PrintFormat, MegabytesAreMillions) { EXPECT_EQ(megabytes(1500000), "1.5 MB"); }

TEST(PrintFormat, TextOfFormatsLongText) {
  EXPECT_EQ(text_of("%0500d", 1).size(), 500u);
  EXPECT_EQ(text_of("%s", ""), "");
}

TEST(WrapWords, NoLineIsWiderThanAsked) {
  const std::string text = "a model with three megabytes of weights answers in short sentences";
  for (size_t width = 12; width < 80; ++width) {
    const std::string wrapped = wrap_words(text, width, 2);
    size_t column = 0;
    for (const char c : wrapped) {
      column = c == '\n' ? 0 : column + 1;
      ASSERT_LE(column, width) << wrapped;
    }
  }
}

TEST(WrapWords, IndentsAllLinesButTheFirst) {
  EXPECT_EQ(wrap_words("one two three", 7, 2), "one two\n  three");
}

TEST(WrapWords, LongWordsStandAlone) {
  EXPECT_EQ(wrap_words("a verylongword b", 5, 0), "a\nverylongword\nb");
}

TEST(WrapWords, CountsCharactersNotBytes) {
  EXPECT_EQ(wrap_words("\xc3\xa4\xc3\xa4 \xc3\xa4\xc3\xa4", 5, 0),
            "\xc3\xa4\xc3\xa4 \xc3\xa4\xc3\xa4");
}

}  // namespace
}  // namespace cria::hosted
