// Where words start and end.
#include "runtime/text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>

namespace cria {
namespace {

using format::PreTokenizer;

std::string words(PreTokenizer kind, std::string_view text, bool has_prefix) {
  const PrefixedText view = {text.data(), text.size() + (has_prefix ? 1 : 0), has_prefix};
  std::string shown;
  for (size_t begin = 0; begin < view.n_bytes;) {
    const size_t end = word_end(kind, view, begin);
    if (end <= begin || end > view.n_bytes) return "no progress";
    if (begin > 0) shown += '|';
    for (size_t i = begin; i < end; ++i) shown += view.byte_at(i);
    begin = end;
  }
  return shown;
}

std::string words(PreTokenizer kind, std::string_view text) { return words(kind, text, false); }

struct Row {
  const char* text;
  const char* expected;
};

TEST(PreTokenizerTest, Gpt2CutsAsItsRegex) {
  constexpr Row kRows[] = {
      {"Hello world", "Hello| world"},
      {"don't DON'T", "don|'t| DON|'|T"},
      {"a  b", "a| | b"},
      {"a \n b", "a| \n| b"},
      {"x   ", "x|   "},
      {"12345 67", "12345| 67"},
      {"a1b", "a|1|b"},
      {" ...!? ok", " ...!?| ok"},
      {"'re're", "'re|'re"},
      {"\xC3\xA9t\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD", "\xC3\xA9t\xC3\xA9| \xE4\xBD\xA0\xE5\xA5\xBD"},
      {"\t\tx", "\t|\t|x"},
  };
  for (const Row& row : kRows) EXPECT_EQ(words(PreTokenizer::kGpt2, row.text), row.expected);
}

TEST(PreTokenizerTest, SingleDigitsStandApartAndEndTheTextBeforeThem) {
  constexpr Row kRows[] = {
      {"12a 3", "1|2|a| |3"}, {"a  1", "a|  |1"},
      {"a  b", "a| | b"},     {"\xC2\xBD\xD9\xA3", "\xC2\xBD|\xD9\xA3"},
      {"-1", "-|1"},
  };
  for (const Row& row : kRows) EXPECT_EQ(words(PreTokenizer::kDigitsGpt2, row.text), row.expected);
}

TEST(PreTokenizerTest, Llama3CutsAsItsRegex) {
  constexpr Row kRows[] = {
      {"Hello world", "Hello| world"},
      {"DON'T I'LL", "DON|'T| I|'LL"},
      {"it'\xC5\xBF", "it|'\xC5\xBF"},
      {"1234567", "123|456|7"},
      {"(abc", "(abc"},
      {"a.b", "a|.b"},
      {"a\n\nb", "a|\n\n|b"},
      {"a \n\n  b", "a| \n\n| | b"},
      {"x!!\r\n\r\ny", "x|!!\r\n\r\n|y"},
      {"a   ", "a|   "},
      {"a   b", "a|  | b"},
      {" 1", " |1"},
      {"\xC2\xA0x", "\xC2\xA0x"},
      {"'x", "'x"},
  };
  for (const Row& row : kRows) EXPECT_EQ(words(PreTokenizer::kLlama3, row.text), row.expected);
}

TEST(PreTokenizerTest, Qwen2TakesDigitsOneByOne) {
  EXPECT_EQ(words(PreTokenizer::kQwen2, "a123 b"), "a|1|2|3| b");
}

TEST(PreTokenizerTest, SpaceRunsStartWords) {
  EXPECT_EQ(words(PreTokenizer::kSpaceRuns, "  ab c  "), "  ab| c|  ");
  EXPECT_EQ(words(PreTokenizer::kSpaceRuns, "a\xE2\x96\x81 b\nc"), "a|\xE2\x96\x81 b\nc");
}

TEST(PreTokenizerTest, MetaspaceStartsAWordAtEachSpace) {
  EXPECT_EQ(words(PreTokenizer::kMetaspace, "  ab c"), " | ab| c");
}

TEST(PreTokenizerTest, PrefixCountsAsASpace) {
  EXPECT_EQ(words(PreTokenizer::kGpt2, "ab c", true), " ab| c");
  EXPECT_EQ(words(PreTokenizer::kGpt2, "\nab", true), " |\n|ab");
  EXPECT_EQ(words(PreTokenizer::kSpaceRuns, "ab c", true), " ab| c");
  EXPECT_EQ(words(PreTokenizer::kSpaceRuns, "", true), " ");
}

TEST(PreTokenizerTest, EveryKindCutsRandomBytesCompletely) {
  constexpr uint32_t kSeed = 20240726;
  std::mt19937 random(kSeed);
  const std::string_view alphabet = "a1 '\n\rsT.\xC3\xA9\xE2\x96\x81\xF0\x80\xFF";
  for (int round = 0; round < 2000; ++round) {
    std::string text(random() % 24, ' ');
    for (char& c : text) c = alphabet[random() % alphabet.size()];
    for (uint32_t kind = 0; kind <= static_cast<uint32_t>(PreTokenizer::kMetaspace); ++kind) {
      for (const bool has_prefix : {false, true}) {
        std::string shown = words(static_cast<PreTokenizer>(kind), text, has_prefix);
        std::erase(shown, '|');
        ASSERT_EQ(shown, (has_prefix ? " " : "") + text) << kind << " seed " << kSeed;
      }
    }
  }
}

}  // namespace
}  // namespace cria
