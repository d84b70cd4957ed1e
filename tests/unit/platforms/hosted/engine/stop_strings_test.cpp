#include "platforms/hosted/engine/stop_strings.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/seeds.h"

namespace cria::hosted {
namespace {

struct Cut {
  std::string text;   // before the stop string, or all
  std::string found;  // empty: none
};

// Fed in pieces of so many bytes; what is clear never shrinks and is never taken back.
Cut cut(const std::vector<std::string>& stops, const std::string& text, size_t piece) {
  const StopStrings strings(stops);
  StopFinder finder(&strings);
  size_t n_clear = 0;
  for (size_t at = 0; at < text.size() && finder.found() == nullptr; at += piece) {
    finder.feed(std::string_view(text).substr(at, piece));
    EXPECT_GE(finder.n_clear(), n_clear);
    n_clear = finder.n_clear();
  }
  if (finder.found() == nullptr) return {text, ""};
  return {text.substr(0, finder.n_clear()), *finder.found()};
}

// By looking at every end.
Cut plain_cut(const std::vector<std::string>& stops, const std::string& text) {
  for (size_t end = 0; end <= text.size(); ++end) {
    const std::string* longest = nullptr;
    for (const std::string& stop : stops) {
      const std::string_view head = std::string_view(text).substr(0, end);
      if (head.ends_with(stop) && (longest == nullptr || stop.size() > longest->size())) {
        longest = &stop;
      }
    }
    if (longest != nullptr) return {text.substr(0, end - longest->size()), *longest};
  }
  return {text, ""};
}

TEST(StopFinder, FindsWhatComesFirst) {
  EXPECT_EQ(cut({"User:", "\n\n"}, "Hello\n\nUser: no", 1).text, "Hello");
  EXPECT_EQ(cut({"User:", "\n\n"}, "Hello\nUser: no", 3).text, "Hello\n");
  EXPECT_EQ(cut({"User:", "\n\n"}, "Hello\nUser no", 3).found, "");
}

TEST(StopFinder, TakesTheLongestThatEndsWithTheSameByte) {
  EXPECT_EQ(cut({"end", "the end"}, "this is the end.", 4).text, "this is ");
  EXPECT_EQ(cut({"the end", "end"}, "this is the end.", 4).found, "the end");
}

TEST(StopFinder, HoldsBackWhatMayBecomeOne) {
  const StopStrings strings({"abac", "zz"});
  StopFinder finder(&strings);
  finder.feed("xaba");
  EXPECT_EQ(finder.n_clear(), 1u);
  finder.feed("b");  // "ab" may still begin one
  EXPECT_EQ(finder.n_clear(), 3u);
  finder.feed("z");
  EXPECT_EQ(finder.n_clear(), 5u);
  finder.feed("q");
  EXPECT_EQ(finder.n_clear(), 7u);
  EXPECT_EQ(finder.found(), nullptr);
}

TEST(StopFinder, WithoutStringsHoldsNothing) {
  const StopStrings none({});
  StopFinder finder(&none);
  finder.feed("text");
  EXPECT_EQ(finder.n_clear(), 4u);
}

void find_in_random_texts(uint32_t seed) {
  std::mt19937 random(seed);
  const auto letters = [&random](size_t n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += static_cast<char>('a' + random() % 2);
    return text;
  };
  size_t n_found = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<std::string> stops;
    for (size_t i = random() % 4; i > 0; --i) stops.push_back(letters(1 + random() % 6));
    const std::string text = letters(random() % 30);
    const Cut expected = plain_cut(stops, text);
    n_found += expected.found.empty() ? 0 : 1;
    for (const size_t piece : {1, 2, 5, 30}) {
      const Cut got = cut(stops, text, piece);
      ASSERT_EQ(got.text, expected.text) << "trial " << trial << ", pieces of " << piece;
      ASSERT_EQ(got.found, expected.found) << "trial " << trial << ", pieces of " << piece;
    }
  }
  EXPECT_GT(n_found, 500u);
}

TEST(StopFinder, FindsTheSameHoweverTheTextIsCut) {
  test::for_each_seed({1}, find_in_random_texts);
}

}  // namespace
}  // namespace cria::hosted
