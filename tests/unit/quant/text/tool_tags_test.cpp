// Functions with tags around their fields, and which of them are refused.
#include <gtest/gtest.h>

#include <string>

#include "quant/text/tool_tags.h"

namespace cria {
namespace {

class StringSink : public TextSink {
 public:
  void put(std::span<const char> text) override { written.append(text.data(), text.size()); }
  std::string written;
};

std::string printed(const std::string& function, bool has_own_lists) {
  StringSink sink;
  print_tags(function, has_own_lists, &sink);
  return sink.written;
}

constexpr const char* kFunction =
    R"({"strict": true, "name": "f", "description": "A \"b\".\nC", "x": [1, "y"], "parameters":
    {"required": ["a"], "type": "object", "properties": {"a": {"enum": ["p", 1E2], "type": "string",
    "description": "d"}, "b": {"type": ["string", "null"], "items": {"k": [null]}, "default": "e"},
    "c": true}, "additionalProperties": false}})";

TEST(ToolTags, MembersStandInTheirOrder) {
  EXPECT_EQ(printed(kFunction, false), R"(<function>
<name>f</name>
<description>A "b".
C</description>
<parameters>
<parameter>
<name>a</name>
<type>string</type>
<description>d</description>
<enum>['p', 100.0]</enum>
</parameter>
<parameter>
<name>b</name>
<type>['string', 'null']</type>
<items>{"k": [null]}</items>
<default>e</default>
</parameter>
<parameter>
<name>c</name>
</parameter>
<required>['a']</required>
<additionalProperties>False</additionalProperties>
</parameters>
<strict>True</strict>
<x>[1, 'y']</x>
</function>)");
}

TEST(ToolTags, ListsMayHavePlacesOfTheirOwn) {
  const std::string text = printed(kFunction, true);
  EXPECT_NE(text.find("<description>d</description>\n<enum>[\"p\", 100.0]</enum>\n</parameter>"),
            std::string::npos);
  EXPECT_NE(text.find("<additionalProperties>False</additionalProperties>\n"
                      "<required>[\"a\"]</required>\n</parameters>\n<strict>True</strict>\n"
                      "<x>[1, \"y\"]</x>\n</function>"),
            std::string::npos);
}

TEST(ToolTags, WhatIsNotThereIsLeftOut) {
  const std::string none = "<function>\n<name>f</name>\n<parameters>\n</parameters>\n</function>";
  EXPECT_EQ(printed(R"({"name": "f"})", false), none);
  EXPECT_EQ(printed(R"({"name": "f", "parameters": null})", true), none);
  EXPECT_EQ(printed(R"({"name": "f", "parameters": {"properties": []}})", false), none);
}

// As templates have it: description | trim.
TEST(ToolTags, DescriptionsAreStripped) {
  const auto told = [](const std::string& description) {
    const std::string of_function = R"({"name": "f", "description": )" + description + "}";
    const std::string of_property =
        R"({"name": "f", "parameters": {"properties": {"a": {"description": )" + description +
        "}}}}";
    const auto between = [](const std::string& text) {
      constexpr std::string_view kBegin = "\n<description>";
      const size_t begin = text.find(kBegin);
      const size_t end = text.find("</description>\n");
      if (begin == std::string::npos) return std::string("none");
      return text.substr(begin + kBegin.size(), end - begin - kBegin.size());
    };
    EXPECT_EQ(tags_refusal(of_function), nullptr);
    EXPECT_EQ(tags_refusal(of_property), nullptr);
    const std::string text = between(printed(of_function, false));
    EXPECT_EQ(between(printed(of_property, true)), text);
    return text;
  };
  EXPECT_EQ(told("null"), "none");
  for (const char* blank : {R"("")", R"(" ")", R"("\n\t \u00a0")"}) EXPECT_EQ(told(blank), "");
  for (const char* plain : {R"("a b")", R"(" a b")", R"("a b ")", R"("\ta b\n")", R"("a b\u00a0")",
                            R"("\u001c\u2003a b")", "\"a b\xE3\x80\x80\""}) {
    EXPECT_EQ(told(plain), "a b") << plain;
  }
  EXPECT_EQ(told(R"("\n\"a\"\n b \\ ")"), "\"a\"\n b \\");
  EXPECT_EQ(told(R"(" \u00e9 ")"), "\xC3\xA9");
  EXPECT_EQ(told("\" \xE5\xA4\xA9\xE6\xB0\x94\\n\""), "\xE5\xA4\xA9\xE6\xB0\x94");
  EXPECT_EQ(told(R"([1.50, " a "])"), "[1.5, ' a ']");
  EXPECT_EQ(told("true"), "True");
}

TEST(ToolTags, EscapedNamesAreRefused) {
  EXPECT_NE(tags_refusal(R"({"name": "f", "\u0078": 1})"), nullptr);
  EXPECT_NE(tags_refusal(R"({"name": "f", "parameters": {"properties": {"a": {"\"": 1}}}})"),
            nullptr);
  EXPECT_EQ(tags_refusal(R"({"name": "f", "parameters": {"properties": {"\u0078": {}}}})"),
            nullptr);
}

}  // namespace
}  // namespace cria
