// Values of JSON, Python and marked strings, as JSON.
#include "runtime/calls/value_reader.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace cria::calls {
namespace {

// What is written; nothing when the value is none, or when it is not all of the text.
std::optional<std::string> written(Style style, std::string_view text, std::string_view mark = {}) {
  std::string out;
  const Writer writer = {
      [](void* context, char c) { static_cast<std::string*>(context)->push_back(c); }, &out};
  ValueReader values;
  values.begin(style, mark, &writer);
  for (size_t i = 0; i < text.size(); ++i) {
    const Step step = values.step(text[i], &writer);
    if (step == Step::kWhole) return i + 1 == text.size() ? std::optional(out) : std::nullopt;
    if (step != Step::kMore) return std::nullopt;
  }
  return values.end(&writer) ? std::optional(out) : std::nullopt;
}

TEST(ValueReader, JsonIsWrittenCompactly) {
  EXPECT_EQ(written(Style::kJson, " { \"a\" : [ 1 , -2.50e+3, true ,null ] , \"b\":{} }"),
            R"({"a":[1,-2.50e+3,true,null],"b":{}})");
  EXPECT_EQ(written(Style::kJson, "[[],[{}]]"), "[[],[{}]]");
  EXPECT_EQ(written(Style::kJson, "123456789012345678901234567890"),
            "123456789012345678901234567890");
}

TEST(ValueReader, WhatIsNoJsonFails) {
  for (const char* text :
       {"",          "[",       "[1,]", "{\"a\":1,}",  "{a:1}", "{'a':1}", "'a'", "True",
        "nul",       "01",      "1.",   ".5",          "+1",    "-",       "1e",  "[1 2]",
        "{\"a\" 1}", "{\"a\"}", "\"a",  "\"\\u12x4\"", "[}",    "{]",      "1 2"}) {
    EXPECT_EQ(written(Style::kJson, text), std::nullopt) << text;
  }
}

TEST(ValueReader, EscapesAreCharactersAndSurrogatesPairs) {
  EXPECT_EQ(written(Style::kJson, R"("\u00fc\ud83e\udd99\/\t\u0001")"),
            "\"\u00fc🦙/\\t\\u0001\"");
  EXPECT_EQ(written(Style::kJson, R"("\ud83e!\udd99")"), "\"\uFFFD!\uFFFD\"");
  EXPECT_EQ(written(Style::kJson, "\"\\d+\\'\""), R"("\\d+'")");  // as models write patterns
  EXPECT_EQ(written(Style::kJson, "\"a\nb\""), R"("a\nb")");
}

TEST(ValueReader, BytesThatAreNoUtf8AreReplaced) {
  EXPECT_EQ(written(Style::kJson, "\"\xff\xc3\xc3\xa4\xe2\x82\""), "\"\uFFFD\uFFFDä\uFFFD\"");
}

TEST(ValueReader, PythonHasItsOwnStringsAndWords) {
  EXPECT_EQ(written(Style::kPython, R"({'a': 'it\'s "x"', "b": (None)})"), std::nullopt);
  EXPECT_EQ(written(Style::kPython, R"({'a': 'it\'s "x"', "b": [None, True, false,],})"),
            R"({"a":"it's \"x\"","b":[null,true,false]})");
  EXPECT_EQ(written(Style::kPython, R"('\x41\U0001f999\
')"),
            "\"A🦙\"");
}

TEST(ValueReader, ArgumentsOfACallAreAnObject) {
  EXPECT_EQ(written(Style::kArguments, ")"), "{}");
  EXPECT_EQ(written(Style::kArguments, " a = 'x' ,b=[1, {'c': 2}],)"),
            R"({"a":"x","b":[1,{"c":2}]})");
  for (const char* text : {"1)", "a)", "a:1)", "a=1}", "'a'=1)", "a=1", "a=f(1))"}) {
    EXPECT_EQ(written(Style::kArguments, text), std::nullopt) << text;
  }
}

TEST(ValueReader, MarkedStringsHaveNoEscapes) {
  constexpr std::string_view kMark = "<|\"|>";
  EXPECT_EQ(written(Style::kMarked, "{a:<|\"|>x <|\" \\n {y}<|\"|>,b:[1,null],c:{d:True}}", kMark),
            R"({"a":"x <|\" \\n {y}","b":[1,null],"c":{"d":true}})");
  EXPECT_EQ(written(Style::kMarked, "{<|\"|>a b<|\"|>:1}", kMark), R"({"a b":1})");
  EXPECT_EQ(written(Style::kMarked, "{a:New York,b:nullable,c:\xc3\xa4}", kMark),
            R"({"a":"New York","b":"nullable","c":"ä"})");
  EXPECT_EQ(written(Style::kMarked, "{a:<|x}", kMark), std::nullopt);
}

TEST(ValueReader, NestingHasABound) {
  const std::string deepest = std::string(kMostNesting, '[') + std::string(kMostNesting, ']');
  EXPECT_EQ(written(Style::kJson, deepest), deepest);
  EXPECT_EQ(written(Style::kJson, "[" + deepest + "]"), std::nullopt);
}

TEST(Finder, FindsWhatOverlapsItself) {
  for (const std::string before : {"", "a", "aa", "aab", "aaba", "aabaa", "b"}) {
    Finder finder;
    finder.begin("aabaac");
    std::string others;
    const std::string text = before + "aabaac";
    for (size_t i = 0; i < text.size(); ++i) {
      EXPECT_EQ(finder.step(text[i], [&others](char c) { others += c; }), i + 1 == text.size());
    }
    EXPECT_EQ(others, before);
  }
}

}  // namespace
}  // namespace cria::calls
