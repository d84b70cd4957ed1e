// The table from texts to numbers, against the standard library's.
#include "converter/text_table.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/seeds.h"
#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {
namespace {

using converter::TextTable;

std::string random_text(std::mt19937* rng) {
  std::string text((*rng)() % 9, '\0');
  for (char& c : text) c = static_cast<char>((*rng)() % 3);
  return text;
}

void find_random_texts(uint32_t seed) {
  std::mt19937 rng(seed);
  std::map<std::string, uint32_t> expected;
  TextTable table;
  for (uint32_t i = 0; i < 3000; ++i) {
    // The texts of a map stay where they are.
    const auto [place, is_new] = expected.emplace(random_text(&rng), i);
    EXPECT_EQ(table.insert(place->first, i), is_new);
  }
  EXPECT_EQ(table.size(), expected.size());
  size_t n_absent = 0;
  for (uint32_t i = 0; i < 3000; ++i) {
    const std::string text = random_text(&rng);
    const auto place = expected.find(text);
    n_absent += place == expected.end() ? 1 : 0;
    EXPECT_EQ(table.find(text),
              place == expected.end() ? std::nullopt : std::optional(place->second));
  }
  EXPECT_GT(n_absent, 100u);
}

TEST(TextTableTest, FindsWhatWasPutInAndNothingElse) {
  test::for_each_seed({11}, find_random_texts);
}

void find_random_parts(uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i) texts.push_back(random_text(&rng));
  TextTable table;
  for (uint32_t i = 0; i < texts.size(); ++i) (void)table.insert(texts[i], i);
  size_t n_found = 0;
  for (int round = 0; round < 100; ++round) {
    const std::string text = random_text(&rng) + random_text(&rng) + random_text(&rng);
    const TextTable::Parts parts(table, text);
    for (size_t begin = 0; begin <= text.size(); ++begin) {
      for (size_t end = begin; end <= text.size(); ++end) {
        const auto found = parts.find(begin, end);
        EXPECT_EQ(found, table.find(std::string_view(text).substr(begin, end - begin)));
        n_found += found ? 1 : 0;
      }
    }
  }
  EXPECT_GT(n_found, 1000u);
}

TEST(TextTableTest, FindsTheSamePartOfATextAsTheTextAlone) {
  test::for_each_seed({12}, find_random_parts);
}

}  // namespace
}  // namespace cria::test
