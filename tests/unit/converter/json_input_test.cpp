// JSON from a checkpoint: types are checked, and every refusal names file, key and value.
#include "converter/json_input.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "tests/support/seeds.h"
#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {
namespace {

using converter::Json;
using converter::JsonObject;

converter::Json parse_json(const std::string& text, const std::string& where) {
  return converter::parse_json(text, where, converter::kMaxJsonValues);
}

TEST(JsonInput, ValuesOfTheRightTypeAreRead) {
  const Json json = parse_json(
      R"({"n":5,"x":1e-5,"b":true,"t":"text","l":["a","b"],"i":[3,4],"o":{"k":7},"null":null})",
      "f");
  const JsonObject object(json, "f");
  EXPECT_EQ(object.count("n"), 5u);
  EXPECT_EQ(object.number("x"), 1e-5);
  EXPECT_EQ(object.number("n"), 5.0);
  EXPECT_EQ(object.boolean("b"), true);
  EXPECT_EQ(object.text("t"), "text");
  EXPECT_EQ(object.texts("l"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(object.counts("i"), (std::vector<uint32_t>{3, 4}));
  EXPECT_EQ(object.counts("n"), (std::vector<uint32_t>{5}));
  EXPECT_EQ(object.object("o")->required_count("k"), 7u);
  EXPECT_FALSE(object.count("null").has_value());
  EXPECT_FALSE(object.has("null"));
  EXPECT_TRUE(object.contains("null"));
  EXPECT_FALSE(object.contains("absent"));
}

TEST(JsonInput, AValueOfAnotherTypeIsRefusedWithKeyAndValue) {
  const Json json =
      parse_json(R"({"a":"12","b":-1,"c":1.5,"d":4294967296,"e":[1,"x"],"f":{}})", "f");
  const JsonObject object(json, "config.json");
  expect_invalid({"config.json: a", "\"12\""}, [&] { (void)object.count("a"); });
  expect_invalid({"config.json: b", "-1"}, [&] { (void)object.count("b"); });
  expect_invalid({"config.json: c", "1.5"}, [&] { (void)object.count("c"); });
  expect_invalid({"config.json: d"}, [&] { (void)object.count("d"); });
  expect_invalid({"config.json: e", "\"x\""}, [&] { (void)object.counts("e"); });
  expect_invalid({"config.json: e"}, [&] { (void)object.texts("e"); });
  expect_invalid({"config.json: a"}, [&] { (void)object.number("a"); });
  expect_invalid({"config.json: a"}, [&] { (void)object.boolean("a"); });
  expect_invalid({"config.json: b"}, [&] { (void)object.text("b"); });
  expect_invalid({"config.json: b"}, [&] { (void)object.object("b"); });
  expect_invalid({"config.json: zz", "missing"}, [&] { (void)object.required_count("zz"); });
  expect_invalid({"config.json: zz", "missing"}, [&] { (void)object.required_number("zz"); });
}

TEST(JsonInput, ALongValueIsShortenedInTheLine) {
  const Json json = parse_json("{\"a\":\"" + std::string(1000, 'x') + "\"}", "f");
  try {
    (void)JsonObject(json, "f").count("a");
    FAIL();
  } catch (const converter::ProgramError& e) {
    EXPECT_LT(std::string(e.what()).size(), 200u);
  }
}

TEST(JsonInput, WhatParsersDisagreeOnIsRefused) {
  expect_invalid({"f", "appears twice"}, [] { (void)parse_json(R"({"a":1,"a":2})", "f"); });
  expect_invalid({"f", "appears twice"}, [] { (void)parse_json(R"({"o":{"a":1,"a":2}})", "f"); });
  EXPECT_NO_THROW((void)parse_json(R"([{"a":1},{"a":2},{"b":{"a":3}}])", "f"));
  expect_invalid({"f", "too deeply"}, [] { (void)parse_json(std::string(100000, '['), "f"); });
  expect_invalid({"f", "out of range"}, [] { (void)parse_json(R"({"a":1e999})", "f"); });
  expect_invalid({"f", "not valid"}, [] { (void)parse_json("", "f"); });
  expect_invalid({"f", "object"}, [] {
    const Json json = parse_json("5", "f");
    (void)JsonObject(json, "f");
  });
}

TEST(JsonInput, OneByteOrderMarkIsNothingAndANulIsNoEnd) {
  EXPECT_EQ(parse_json("\xef\xbb\xbf{\"a\":1}", "f"), Json({{"a", 1}}));
  expect_invalid({"f", "byte 3"}, [] { (void)parse_json("\xef\xbb\xbf\xef\xbb\xbf{}", "f"); });
  expect_invalid({"f", "byte 3"}, [] { (void)parse_json(std::string("{}\0{", 4), "f"); });
}

TEST(JsonInput, NumbersThatPythonWritesAreRefusedByTheirKeyAlone) {
  const Json json = parse_json(
      R"({"t":"NaN","q\"":[1,NaN,{"k":Infinity}],"NaN":2,"m":-Infinity,"Infinity":"\\","e":""})",
      "f");
  EXPECT_EQ(json["t"], "NaN");
  EXPECT_TRUE(std::isnan(json["q\""][1].get<double>()));
  EXPECT_EQ(json["q\""][2]["k"], std::numeric_limits<double>::infinity());
  EXPECT_EQ(json["NaN"], 2);
  EXPECT_EQ(json["Infinity"], "\\");
  EXPECT_EQ(json["e"], "");
  const JsonObject object(json, "f");
  expect_invalid({"f: m", "found -Infinity"}, [&] { (void)object.number("m"); });
  expect_invalid({"f: m", "found -Infinity"}, [&] { (void)object.count("m"); });
  EXPECT_TRUE(std::isnan(parse_json("NaN", "f").get<double>()));
  for (const char* broken :
       {"{NaN:1}", "[-NaN]", "[NaN5]", "[1NaN]", "[NaNNaN]", "[+Infinity]", "[\"a\"NaN]", "nan",
        "[infinity]", "[Infinit]", "{\"a\":NaN", "[\"NaN]", "[\\NaN]"}) {
    SCOPED_TRACE(broken);
    expect_invalid({"f", "not valid"}, [&] { (void)parse_json(broken, "f"); });
  }
  const std::string text = R"({"o":{"z":NaN,"a":{"b":1},"Infinity":2},"p":{"c":3},"z":[{"o":4}]})";
  EXPECT_EQ(converter::keys_in_file_order(text, "o"),
            (std::vector<std::string>{"z", "a", "Infinity"}));
  EXPECT_TRUE(converter::keys_in_file_order(text, "z").empty());
}

TEST(JsonInput, MoreValuesThanAllowedAreRefused) {
  // The list, two objects, three numbers.
  const std::string text = R"([{"a":1,"b":2},{"c":3}])";
  EXPECT_NO_THROW((void)converter::parse_json(text, "f", 6));
  expect_invalid({"f", "more than 5 JSON values"},
                 [&] { (void)converter::parse_json(text, "f", 5); });
}

TEST(JsonInput, NestingEndsAtThirtyTwo) {
  EXPECT_NO_THROW((void)parse_json(std::string(32, '[') + std::string(32, ']'), "f"));
  expect_invalid({"too deeply"}, [] { (void)parse_json(std::string(33, '['), "f"); });
  std::string objects;
  for (int i = 0; i < 33; ++i) objects += R"({"a":)";
  expect_invalid({"too deeply"}, [&] { (void)parse_json(objects, "f"); });
}

// The members are put in order when an object ends, so what was there before matters.
void compare_random_values(uint32_t seed) {
  std::mt19937 rng(seed);
  for (int round = 0; round < 300; ++round) {
    std::function<Json(int)> make = [&](int depth) -> Json {
      const auto kind = rng() % (depth == 0 ? 5 : 7);
      Json json;
      if (kind < 5) {
        const Json plain[] = {nullptr, true, -5, 7u, "text"};
        return plain[kind];
      }
      json = kind == 5 ? Json::array() : Json::object();
      for (auto n = rng() % 6; n-- > 0;) {
        if (kind == 5) {
          json.push_back(make(depth - 1));
        } else {
          json[std::to_string(rng() % 100)] = make(depth - 1);
        }
      }
      return json;
    };
    const Json json = make(6);
    EXPECT_EQ(parse_json(json.dump(), "f"), json);
  }
}

TEST(JsonInput, WhatIsBuiltIsWhatTheLibraryBuilds) {
  test::for_each_seed({6}, compare_random_values);
}

TEST(JsonInput, ANameInAMessageIsCutAndPrintable) {
  const std::string key = "\\u001b]0;" + std::string(1000, 'k');
  try {
    (void)parse_json("{\"" + key + "\":1,\"" + key + "\":2}", "f");
    FAIL();
  } catch (const converter::ProgramError& e) {
    EXPECT_LT(std::string(e.what()).size(), 200u);
    EXPECT_EQ(std::string(e.what()).find('\x1b'), std::string::npos);
  }
}

}  // namespace
}  // namespace cria::test
