#include "quant/format/metadata_check.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "quant/format/format.h"

namespace cria {
namespace {

// In pieces of n bytes.
bool holds(std::string_view text, size_t n) {
  MetadataCheck check;
  for (size_t i = 0; i < text.size(); i += n) {
    const std::string_view piece = text.substr(i, n);
    check.add(reinterpret_cast<const uint8_t*>(piece.data()), piece.size());
  }
  return check.holds();
}

constexpr std::string_view kGood[] = {
    "{}",
    "[]",
    " \t\r\n{ } ",
    "0",
    "-0",
    "-12.5e+3",
    "1E5",
    "10.0e-0",
    "true",
    " false ",
    "null",
    R"("")",
    R"("a")",
    R"("\ud800 \udc00")",
    R"({"a":1})",
    R"( { "a" : [ 1 , 2.5 , { "b" : null } ] , "c" : "" } )",
    R"([[],{},[{}],"]"])",
    R"(["\"\\\/\b\f\n\r\t\u0041\uD83D\uDe00"])",
    "\"\xc3\xa4 \xe2\x82\xac \xf0\x9f\xa6\x99 \xef\xbf\xbf \xed\x9f\xbf\"",
    "\"\x7f\xc2\x9b\"",
};

constexpr std::string_view kBad[] = {
    "",
    " ",
    "{",
    "[",
    "}",
    "]",
    "[}",
    "{]",
    "{}}",
    "[]]",
    "{} {}",
    "1 2",
    "01",
    "-",
    "-a",
    "+1",
    ".5",
    "1.",
    "1.e3",
    "1e",
    "1e+",
    "1e+a",
    "1a",
    "0x1",
    "tru",
    "trues",
    "nul",
    "True",
    "NaN",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1,,2]",
    "{,}",
    R"({"a"})",
    R"({"a":})",
    R"({"a":1,})",
    R"({"a" 1})",
    R"({a:1})",
    R"({1:1})",
    R"({"a":1 "b":2})",
    R"(["a":1])",
    R"("a)",
    R"("\)",
    R"("\x")",
    R"("\u12")",
    R"("\u12g4")",
    "'a'",
    "// a\n1",
    "\xef\xbb\xbf{}",
    "\"\n\"",
    "\"\x1f\"",
    "\xc3\xa4",
    "\"\x80\"",
    "\"\xc3\"",
    "\"\xc3",
    "\"\xc0\x80\"",
    "\"\xc1\xbf\"",
    "\"\xe0\x9f\xbf\"",
    "\"\xed\xa0\x80\"",
    "\"\xf0\x8f\xbf\xbf\"",
    "\"\xf4\x90\x80\x80\"",
    "\"\xf5\x80\x80\x80\"",
    "\"\xe2\x82\"",
    "\"\xff\"",
};

TEST(MetadataCheck, AcceptsJsonHoweverItIsCut) {
  for (const std::string_view text : kGood) {
    for (const size_t n : {size_t{1}, size_t{2}, size_t{3}, size_t{1000}}) {
      EXPECT_TRUE(holds(text, n)) << text << ' ' << n;
    }
  }
}

TEST(MetadataCheck, RefusesWhatIsNoJsonOrNoUtf8) {
  for (const std::string_view text : kBad) {
    for (const size_t n : {size_t{1}, size_t{1000}}) {
      EXPECT_FALSE(holds(text, n)) << text << ' ' << n;
    }
  }
  EXPECT_FALSE(holds(std::string_view("{}\0", 3), 1));
  EXPECT_FALSE(holds(std::string_view("\"\0\"", 3), 1));
}

TEST(MetadataCheck, EveryBeginningOfAnObjectIsIncomplete) {
  constexpr std::string_view kText = R"({"a":[1,-2.5e3,"\u00e4\ud83d\ude00"],"b":{"c":null}})";
  ASSERT_TRUE(holds(kText, 1));
  for (size_t n = 0; n < kText.size(); ++n) EXPECT_FALSE(holds(kText.substr(0, n), 7)) << n;
}

TEST(MetadataCheck, NestsAsDeepAsTheFormatAllowsAndNoDeeper) {
  const auto nested = [](size_t depth, std::string_view open, std::string_view close) {
    std::string text;
    for (size_t i = 0; i < depth; ++i) text += open;
    text += "1";
    for (size_t i = 0; i < depth; ++i) text += close;
    return text;
  };
  constexpr size_t kMost = format::kMaxMetadataNesting;
  EXPECT_TRUE(holds(nested(kMost, "[", "]"), 5));
  EXPECT_FALSE(holds(nested(kMost + 1, "[", "]"), 5));
  EXPECT_TRUE(holds(nested(kMost, R"({"a":)", "}"), 5));
  EXPECT_FALSE(holds(nested(kMost + 1, R"({"a":)", "}"), 5));
  EXPECT_TRUE(
      holds("[" + nested(kMost - 1, "[", "]") + "," + nested(kMost - 1, "[", "]") + "]", 5));
  EXPECT_FALSE(holds(nested(100000, "[", "]"), 1000));
  // An array that ends as an object, at every depth.
  for (size_t depth = 1; depth <= kMost; ++depth) {
    std::string text = nested(depth, "[", "]");
    text[text.size() - depth] = '}';
    EXPECT_FALSE(holds(text, 5)) << depth;
  }
}

}  // namespace
}  // namespace cria
