// Thoughts are told from answers wherever the text is cut.
#include "platforms/hosted/cli/thinking_filter.h"

#include <gtest/gtest.h>

#include <string>

namespace cria::hosted {
namespace {

class Parts : public ThinkingFilter::Sink {
 public:
  void put_part(std::string_view text, ThinkingFilter::Part part) override {
    (part == ThinkingFilter::Part::kThinking ? thinking : answer) += text;
    all += text;
  }
  std::string thinking;
  std::string answer;
  std::string all;
};

// Cut into pieces of so many bytes.
Parts filtered(std::string_view text, size_t n_bytes) {
  Parts parts;
  ThinkingFilter filter(&parts);
  for (size_t at = 0; at < text.size(); at += n_bytes) filter.feed(text.substr(at, n_bytes));
  filter.finish();
  return parts;
}

struct Case {
  const char* text;
  const char* thinking;
  const char* answer;
};

TEST(ThinkingFilter, TagsAreFoundHoweverTheyAreCut) {
  constexpr Case kCases[] = {
      {"", "", ""},
      {"Hello.", "", "Hello."},
      {"<think>hm</think>Hello.", "<think>hm</think>", "Hello."},
      {"\n<think>\nhm\n</think>\n\nHello.", "<think>\nhm\n</think>", "\n\n\nHello."},
      {"<think>a<b </thin </think>c", "<think>a<b </thin </think>", "c"},
      {"<think></<</think>c", "<think></<</think>", "c"},
      {"<think>never ends", "<think>never ends", ""},
      {"<think>cut</thi", "<think>cut</thi", ""},
      {"<thi", "", "<thi"},
      {"<thinking>is another word", "", "<thinking>is another word"},
      {"<<think>no", "", "<<think>no"},
      {"Write <think> there </think>.", "", "Write <think> there </think>."},
      {"<think>a</think>b<think>c</think>", "<think>a</think>", "b<think>c</think>"},
  };
  for (const Case& each : kCases) {
    for (size_t n = 1; n < 12; ++n) {
      const Parts parts = filtered(each.text, n);
      EXPECT_EQ(parts.thinking, each.thinking) << each.text << ' ' << n;
      EXPECT_EQ(parts.answer, each.answer) << each.text << ' ' << n;
      EXPECT_EQ(parts.all, each.text) << n;
    }
  }
}

TEST(ThinkingFilter, TokensWithoutTextOpenAndClose) {
  Parts parts;
  ThinkingFilter filter(&parts);
  filter.open();
  filter.feed("hm");
  filter.close();
  filter.feed("Hello.");
  filter.finish();
  EXPECT_EQ(parts.thinking, "hm");
  EXPECT_EQ(parts.answer, "Hello.");
}

TEST(ThinkingFilter, AThoughtThatTheTemplateOpenedEndsWithATag) {
  Parts parts;
  ThinkingFilter filter(&parts);
  filter.open();
  filter.feed("hm</th");
  filter.feed("ink>Hello.");
  filter.finish();
  EXPECT_EQ(parts.thinking, "hm</think>");
  EXPECT_EQ(parts.answer, "Hello.");
}

}  // namespace
}  // namespace cria::hosted
