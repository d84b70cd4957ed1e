// What is written is what a parser reads.
#include "platforms/hosted/serve/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

namespace cria::hosted {
namespace {

using Json = nlohmann::json;

TEST(JsonText, FloatsAreWrittenAsPeopleWriteThem) {
  EXPECT_EQ(JsonText(0.8f).text(), "0.8");
  EXPECT_EQ(JsonText(std::nanf("")).text(), "null");
  EXPECT_EQ(JsonText(-HUGE_VAL).text(), "null");
  EXPECT_EQ(JsonText(HUGE_VALF).text(), "null");
  EXPECT_EQ(JsonText(0.0f).text(), "0.0");
  EXPECT_EQ(JsonText(-1.5f).text(), "-1.5");
  EXPECT_EQ(JsonText(0.1).text(), "0.1");
  for (const double number : {1e300, 5e-324, -123456.75, 1.0 / 3.0, 1e22}) {
    EXPECT_EQ(Json::parse(JsonText(number).text()).get<double>(), number);
    EXPECT_TRUE(Json::parse(JsonText(number).text()).is_number_float());
  }
}

TEST(JsonText, NumbersAndWordsAreThemselves) {
  EXPECT_EQ(JsonText(true).text(), "true");
  EXPECT_EQ(JsonText(nullptr).text(), "null");
  EXPECT_EQ(JsonText(std::numeric_limits<uint64_t>::max()).text(), "18446744073709551615");
  EXPECT_EQ(JsonText(std::numeric_limits<int64_t>::min()).text(), "-9223372036854775808");
  EXPECT_EQ(JsonText(static_cast<unsigned char>(200)).text(), "200");
  EXPECT_EQ(JsonText(std::optional<int>()).text(), "null");
  EXPECT_EQ(JsonText(std::optional<int>(7)).text(), "7");
}

// As nlohmann's own writer has it, for every byte and every beginning of a character.
TEST(JsonText, TextsAreEscapedAsAParserReadsThem) {
  std::string all;
  for (int c = 0; c < 0x80; ++c) all += static_cast<char>(c);
  for (const char* text : {"", "a", "\u00e9\u4e2d\U0001f600", "\xed\x9f\xbf\xee\x80\x80"}) {
    all += text;
    EXPECT_EQ(JsonText(text).text(), Json(text).dump());
  }
  EXPECT_EQ(JsonText(all).text(), Json(all).dump());
  for (uint32_t pair = 0x8000; pair <= 0xffff; ++pair) {
    for (const char* rest : {"", "a", "\x80", "\xbf\x80"}) {
      const std::string text =
          std::string{static_cast<char>(pair >> 8), static_cast<char>(pair & 0xff)} + rest;
      const Json read = Json::parse(JsonText(text).text(), nullptr, false);
      ASSERT_TRUE(read.is_string()) << pair << rest;
      const std::string same = "\"" + text + "\"";
      if (Json::accept(same)) {
        ASSERT_EQ(read.get<std::string>(), Json::parse(same).get<std::string>());
      } else {
        ASSERT_NE(read.get<std::string>().find("\xef\xbf\xbd"), std::string::npos) << pair;
      }
    }
  }
}

TEST(JsonText, ObjectsAndArraysGrow) {
  JsonText object = JsonText::object({{"a", 1}, {"b", JsonText::object()}});
  object.put("c\"", JsonText::array());
  EXPECT_EQ(object.text(), R"({"a":1,"b":{},"c\"":[]})");
  JsonText array = JsonText::array(std::vector<int>{1, 2}, [](int i) { return i; });
  array.push_back(object);
  array.push_back("[");
  array.push_back("{");
  EXPECT_EQ(array.text(), R"([1,2,{"a":1,"b":{},"c\"":[]},"[","{"])");
  EXPECT_EQ(JsonText::object({{"x", JsonText::of("[1]")}}).take(), R"({"x":[1]})");
}

}  // namespace
}  // namespace cria::hosted
