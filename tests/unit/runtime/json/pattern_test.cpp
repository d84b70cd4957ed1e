// Patterns held against the library's regular expressions, over all short texts of a few
// characters.
#include "runtime/json/pattern.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

namespace cria::json {
namespace {

constexpr const wchar_t kCharacters[] = L"ab0 \n\x00e9";

struct Compiled {
  std::vector<Position> positions;
  std::vector<CharacterRange> ranges;
  std::vector<PositionSet> ascii;
  PatternPools pools = {};
  Pattern pattern = {};
  bool matches = false;
  Status status;

  explicit Compiled(const std::string& raw) {
    // Exactly the room that is said to suffice: the sanitizers watch it.
    const PatternRoom room = room_for_pattern(raw);
    positions.resize(room.positions);
    ranges.resize(room.ranges);
    ascii.resize(kAsciiCharacters);
    pools = {positions.data(), ranges.data(), ascii.data(), 0, 0, 0};
    PatternProblem problem = {};
    status = read_pattern(raw, &pools, &pattern, &matches, &problem);
  }
  // Whether the whole text fits; dies_early: a state that no text gets out of.
  [[nodiscard]] bool fits(const std::wstring& text) const {
    PositionSet set = pattern_start();
    for (const wchar_t c : text) {
      set = pattern_fitting(pools, pattern, pattern_followers(pools, pattern, set),
                            static_cast<uint32_t>(c));
    }
    return pattern.ends.meets(set);
  }
};

TEST(Pattern, FitsWhatTheLibraryFinds) {
  const char* const patterns[] = {"",
                                  "a",
                                  "^",
                                  "$",
                                  "^$",
                                  "^a",
                                  "a$",
                                  "^a$",
                                  "ab",
                                  "^ab|b$",
                                  "^(ab|a)$",
                                  "a*b+",
                                  "^a*b?0{2}$",
                                  "^(a|b){2,3}$",
                                  "^(?:ab?){1,}$",
                                  "^[ab]+$",
                                  "^[^ab]+$",
                                  "^[^\\\\n]*$",
                                  "^.$",
                                  "^.{2}$",
                                  "^\\\\d\\\\w$",
                                  "^\\\\D+$",
                                  "^\\\\s?\\\\S$",
                                  "^\\\\W{2}$",
                                  "^(a*)*$",
                                  "^((a|b)*0)*$",
                                  "^[a-b0-]{2}$",
                                  "^\\u00e9+$",
                                  "^[\\u00e0-\\u00ff]$",
                                  "^a{0}b$",
                                  "^(a{1,2}){2}$",
                                  "^a+?b$",
                                  "^(|a)b$",
                                  "^()a$",
                                  "a|",
                                  "^[\\\\d\\\\s]+$",
                                  "^a{2,}$"};
  std::vector<std::wstring> texts = {L""};
  for (size_t i = 0; i < texts.size() && texts[i].size() < 4; ++i) {
    for (const wchar_t* c = kCharacters; *c != 0; ++c) texts.push_back(texts[i] + *c);
  }
  for (const char* const raw : patterns) {
    const Compiled compiled(raw);
    ASSERT_EQ(compiled.status, Status::kOk) << raw;
    ASSERT_TRUE(compiled.matches) << raw;
    std::wstring wide;
    for (const char* c = raw; *c != 0; ++c) {  // JSON's escapes undone
      if (c[0] == '\\' && c[1] == '\\') ++c;
      wide += static_cast<wchar_t>(*c);
    }
    const std::wregex library(wide);
    for (const std::wstring& text : texts) {
      ASSERT_EQ(compiled.fits(text), std::regex_search(text, library))
          << raw << " " << std::string(text.begin(), text.end());
    }
  }
}

TEST(Pattern, KeepsNoStateThatNoTextGetsOutOf) {
  for (const char* const raw : {"^a[]b|^c$", "^(a[^\\\\s\\\\S]|b)$", "^a\\u0001|^b$"}) {
    const Compiled compiled(raw);
    ASSERT_EQ(compiled.status, Status::kOk) << raw;
    EXPECT_FALSE(pattern_takes(compiled.pools, compiled.pattern, pattern_start(), {'a', 'a'}))
        << raw;
  }
  EXPECT_FALSE(Compiled("^[]$").matches);
  EXPECT_FALSE(Compiled("^\\u0001$").matches);
}

}  // namespace
}  // namespace cria::json
