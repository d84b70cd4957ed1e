// Values of JSON as chat templates print them.
#include <gtest/gtest.h>

#include <string>

#include "quant/text/json_print.h"

namespace cria {
namespace {

using format::ChatValueForm;
using format::ChatValueStyle;

class StringSink : public TextSink {
 public:
  void put(std::span<const char> text) override { written.append(text.data(), text.size()); }
  std::string written;
};

constexpr ChatValueStyle kJson = {ChatValueForm::kJson, 0, 0, 0};
constexpr ChatValueStyle kPython = {ChatValueForm::kPython, 0, 0, 0};

std::string printed(const std::string& json, const ChatValueStyle& style = kJson) {
  StringSink sink;
  print_json(json, style, &sink);
  return sink.written;
}

TEST(JsonPrint, NumbersHaveTheFormOfPython) {
  const std::pair<const char*, const char*> cases[] = {
      {"0", "0"},           {"-0", "0"},
      {"-0.0", "-0.0"},     {"12345678901234567890", "12345678901234567890"},
      {"1.50", "1.5"},      {"2.5", "2.5"},
      {"100.0", "100.0"},   {"1E5", "100000.0"},
      {"1e16", "1e+16"},    {"1e15", "1000000000000000.0"},
      {"0.0001", "0.0001"}, {"0.00001", "1e-05"},
      {"123e-2", "1.23"},   {"12.5e20", "1.25e+21"},
      {"0e5", "0.0"},       {"1e-7", "1e-07"},
      {"1e100", "1e+100"}};
  for (const auto& [json, expected] : cases) EXPECT_EQ(printed(json), expected) << json;
}

TEST(JsonPrint, StructureIsThatOfTheStyle) {
  const std::string json = " {\"a\" :[1 ,{ },[ ] ],\"b\": {\"c\":null,\"d\":true} } ";
  EXPECT_EQ(printed(json), R"({"a": [1, {}, []], "b": {"c": null, "d": true}})");
  EXPECT_EQ(printed(json, {ChatValueForm::kJson, 0, 0, format::kChatTight}),
            R"({"a":[1,{},[]],"b":{"c":null,"d":true}})");
  EXPECT_EQ(printed(json, kPython), "{'a': [1, {}, []], 'b': {'c': None, 'd': True}}");
  EXPECT_EQ(printed("{\"a\": [1, {}]}", {ChatValueForm::kJson, 2, 1, 0}),
            "{\n    \"a\": [\n      1,\n      {}\n    ]\n  }");
}

TEST(JsonPrint, StringsAreEscapedAsTheStyleSays) {
  const std::string json = "\"\\u00e9 \\ud83e\\udd99 \\\"'\\/\\n\\u0001\\u007f\\ud800\"";
  EXPECT_EQ(printed(json), "\"\xC3\xA9 \xF0\x9F\xA6\x99 \\\"'/\\n\\u0001\x7f\xEF\xBF\xBD\"");
  EXPECT_EQ(
      printed("\"\xC3\xA9\xF0\x9F\xA6\x99\"", {ChatValueForm::kJson, 0, 0, format::kChatEscapes}),
      "\"\\u00e9\\ud83e\\udd99\"");
  EXPECT_EQ(printed(json, {ChatValueForm::kBare, 0, 0, 0}),
            "\xC3\xA9 \xF0\x9F\xA6\x99 \"'/\n\x01\x7f\xEF\xBF\xBD");
  EXPECT_EQ(printed(R"("it's")", kPython), "\"it's\"");
  EXPECT_EQ(printed(R"("it's \"so\"")", kPython), R"('it\'s "so"')");
  EXPECT_EQ(printed(R"("a\u0001\u00a0\u200b\\")", kPython), R"('a\x01\xa0\u200b\\')");
  EXPECT_EQ(printed(R"("a b")", {ChatValueForm::kSingleQuoted, 0, 0, 0}), "'a b'");
}

TEST(JsonPrint, OnlyWholeObjectsAreTaken) {
  for (const char* json :
       {"{}", " {\"a\": [1, -2.5e+3, \"\\u12aB\", {\"b\": null}], \"\": false} "}) {
    EXPECT_TRUE(is_json_object(std::string_view(json))) << json;
  }
  for (const char* json : {"",
                           "[]",
                           "1",
                           "{",
                           "{}}",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{a:1}",
                           "{\"a\":01}",
                           "{\"a\":1.}",
                           "{\"a\":\"\\x\"}",
                           "{\"a\":\"\n\"}",
                           "{\"a\":[1,]}",
                           "{\"a\":[1}",
                           "{\"a\":tru}",
                           "{\"a\":\"\\u12g4\"}",
                           "{\"a\":-}",
                           "{\"a\":1e}",
                           "{,}"}) {
    EXPECT_FALSE(is_json_object(std::string_view(json))) << json;
  }
  const auto nested = [](size_t depth) {
    return "{\"a\":" + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_TRUE(is_json_object(nested(kMaxJsonDepth)));
  EXPECT_FALSE(is_json_object(nested(kMaxJsonDepth + 1)));
}

TEST(JsonPrint, MembersComeInOrder) {
  const std::string json = R"({"a": [1, {"x": "}"}] , "b":"c"})";
  JsonMembers members(json);
  std::span<const char> key;
  std::span<const char> value;
  ASSERT_TRUE(members.next(&key, &value));
  EXPECT_TRUE(is_json_name(key, "a"));
  EXPECT_EQ(std::string(value.begin(), value.end()), R"([1, {"x": "}"}])");
  ASSERT_TRUE(members.next(&key, &value));
  EXPECT_EQ(std::string(value.begin(), value.end()), "\"c\"");
  EXPECT_FALSE(members.next(&key, &value));
}

}  // namespace
}  // namespace cria
