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

TEST(ToolTags, WhatTemplatesWouldChangeIsRefused) {
  const auto is_refused = [](const std::string& description) {
    const std::string of_function = R"({"name": "f", "description": )" + description + "}";
    const std::string of_property =
        R"({"name": "f", "parameters": {"properties": {"a": {"description": )" + description +
        "}}}}";
    EXPECT_EQ(tags_refusal(of_function) == nullptr, tags_refusal(of_property) == nullptr);
    return tags_refusal(of_function) != nullptr;
  };
  for (const char* kept : {R"("")", R"("a b")", R"("\"a\"")", "\"\xC3\xA9\"", R"("\u00e9")",
                           R"("a\n b")", "\"\xE5\xA4\xA9\xE6\xB0\x94\""}) {
    EXPECT_FALSE(is_refused(kept)) << kept;
  }
  for (const char* changed : {R"(" a")", R"("a ")", R"("a\n")", R"("\ta")", R"("a\u00a0")",
                              R"("\u001ca")", "\"a\xE3\x80\x80\"", R"(" ")", "null", "3"}) {
    EXPECT_TRUE(is_refused(changed)) << changed;
  }
  EXPECT_NE(tags_refusal(R"({"name": "f", "\u0078": 1})"), nullptr);
  EXPECT_NE(tags_refusal(R"({"name": "f", "parameters": {"properties": {"a": {"\"": 1}}}})"),
            nullptr);
  EXPECT_EQ(tags_refusal(R"({"name": "f", "parameters": {"properties": {"\u0078": {}}}})"),
            nullptr);
}

}  // namespace
}  // namespace cria
