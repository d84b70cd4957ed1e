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
    status = read_pattern(raw, 0, &pools, &pattern, &matches, &problem);
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

// Characters that ECMA-262, Python, Rust and Java put into different classes are in none of them,
// nor in what stands for their opposite.
TEST(Pattern, WritesWhatAllDialectsTakeClassesFor) {
  struct Class {
    const char* raw;
    std::wstring taken;
    std::wstring refused;
  };
  const Class list[] = {
      {"^\\\\d$", L"09", L"a\u0661\uff11"},
      {"^\\\\D$", L"a -\u00e9\u4e00\U0001f600", L"5\u0661\uff11\U0001d7ce"},
      {"^[^\\\\d]$", L"a\u00e9\u4e00", L"5\u0661"},
      {"^[^\\\\D]$", L"5", L"a\u00e9\u0661"},
      {"^\\\\w$", L"aZ_0", L"-\u00e9\u0661"},
      {"^\\\\W$", L" -\"\u2014\u20ac\u2192\U0001f600", L"aZ_0\u00e9\u00b2\u0661\u203f\u4e00\u200c"},
      {"^[^\\\\w]$", L" -\u2014", L"a_\u00e9"},
      {"^[^\\\\W]$", L"a_", L"-\u00e9\u2014"},
      {"^\\\\s$", L" \t\u00a0\u2028", L"a\ufeff\u0085\u180e\u200b"},
      {"^\\\\S$", L"a\u00e9\u200b", L" \t\u00a0\ufeff\u0085\u180e"},
      {"^[^\\\\s-]$", L"a\u00e9", L" -\ufeff\u0085"},
      {"^[^\\\\S]$", L" \t\u00a0", L"a\ufeff\u0085"},
  };
  for (const Class& c : list) {
    const Compiled compiled(c.raw);
    ASSERT_EQ(compiled.status, Status::kOk) << c.raw;
    for (const wchar_t character : c.taken) {
      EXPECT_TRUE(compiled.fits(std::wstring(1, character)))
          << c.raw << " " << std::hex << +character;
    }
    for (const wchar_t character : c.refused) {
      EXPECT_FALSE(compiled.fits(std::wstring(1, character)))
          << c.raw << " " << std::hex << +character;
    }
  }
}

// The room for a pattern is said before it is read, and is checked by the sanitizers.
TEST(Pattern, HasRoomForEveryClass) {
  for (const char* const name : {"\\\\d", "\\\\D", "\\\\w", "\\\\W", "\\\\s", "\\\\S"}) {
    std::string all;
    for (size_t i = 0; i < 60; ++i) all += name;
    EXPECT_EQ(Compiled(all).status, Status::kOk) << name;
    EXPECT_EQ(Compiled("[" + all + "]").status, Status::kOk) << name;
    EXPECT_EQ(Compiled("[^" + all + "]").status, Status::kOk) << name;
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
