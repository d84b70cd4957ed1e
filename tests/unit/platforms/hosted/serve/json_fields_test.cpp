#include "platforms/hosted/serve/json_fields.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/chat/raw_json.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/parsed_json.h"

namespace cria::hosted {
namespace {

int status_of(const std::string& body) {
  try {
    parse_object(body);
    return 200;
  } catch (const ApiError& error) {
    return error.http_status();
  }
}

TEST(JsonFields, BodiesAreObjectsOfABoundedSize) {
  EXPECT_EQ(status_of("{}"), 200);
  EXPECT_EQ(status_of(R"({"a": "[[[[\"{{{{"})"), 200);
  for (const char* none : {"", "[]", "1", "{", "{}x", "\"a\"", "{'a':1}", "{\"a\":\"\xff\"}"}) {
    EXPECT_EQ(status_of(none), 400) << none;
  }
  EXPECT_EQ(status_of("{\"a\":" + std::string(1000, '[')), 400);
}

// {"name": [1,1,...]}
std::string list_of(const std::string& name, size_t n) {
  std::string body = "{\"" + name + "\":[1";
  for (size_t i = 1; i < n; ++i) body += ",1";
  return body + "]}";
}

TEST(JsonFields, OnlyWhatARequestCanHaveIsBuiltAndCounted) {
  EXPECT_EQ(status_of(list_of("x", 1 << 20)), 200);
  EXPECT_EQ(parse_object(R"({"x":{"prompt":[1]},"n":2,"y":[{}],"prompt":"a","z":1})").json,
            Json({{"n", 2}, {"prompt", "a"}}));
  EXPECT_EQ(parse_object(R"({"stop":[{"a":[1]},"b"],"n":[[1]],"stop":{"x":[null,-1,0.5]}})").json,
            Json({{"n", Json::array({Json::array({1})})}, {"stop", {{"x", {nullptr, -1, 0.5}}}}}));
  EXPECT_EQ(status_of(list_of("messages", 60000)), 200);
  EXPECT_EQ(status_of(list_of("messages", 66000)), 413);
  for (const char* ids : {"prompt", "tokens", "content"}) {
    EXPECT_EQ(status_of(list_of(ids, 1 << 19)), 200);
    EXPECT_EQ(status_of(list_of(ids, (1 << 19) + 1)), 413);
  }
  EXPECT_EQ(status_of("{\"x\":" + std::string(1000, '[')), 400);
}

std::string message_of(const std::string& body) {
  try {
    parse_object(body);
  } catch (const ApiError& error) {
    return error.what();
  }
  return {};
}

TEST(JsonFields, WhatIsNoJsonIsToldWithItsPlace) {
  EXPECT_NE(message_of("{\"n\": 1,}").find("byte 9"), std::string::npos);
  EXPECT_NE(message_of("{}x").find("byte 3"), std::string::npos);
  EXPECT_NE(message_of(std::string("{}\0", 3)).find("byte 3"), std::string::npos);
  EXPECT_EQ(status_of(std::string("{}\0{}", 5)), 400);
  EXPECT_EQ(message_of("[1]"), "the body is not a JSON object");
  EXPECT_EQ(message_of("1e999"), "the body is not a JSON object");
  EXPECT_EQ(message_of(R"({"n":1e400})"),
            "n: the number that ends at byte 10 is larger than any double");
  EXPECT_EQ(message_of(R"({"n":1,"top_p":[{"n":-1e999}]})"),
            "top_p: the number that ends at byte 27 is larger than any double");
  EXPECT_EQ(message_of(R"({"unknown\n":1e999})"),
            "unknown?: the number that ends at byte 18 is larger than any double");
  EXPECT_EQ(status_of(R"({"json_schema":{"maximum":1e300}})"), 200);
}

const std::string kMark = "\xef\xbb\xbf";

TEST(JsonFields, OneByteOrderMarkIsNothing) {
  const std::string body = kMark + R"({"json_schema" : {"enum":[1]}})";
  EXPECT_EQ(parse_object(body).json, Json::parse(R"({"json_schema":{"enum":[1]}})"));
  EXPECT_EQ(raw_member(body, {"json_schema"}), R"({"enum":[1]})");
  EXPECT_NE(message_of(kMark + "{}x").find("byte 3"), std::string::npos);
  for (const std::string& none :
       {kMark, kMark + kMark + "{}", " " + kMark + "{}", "{}" + kMark, kMark.substr(0, 2) + "{}",
        std::string("\xff\xfe{\0}\0", 6), kMark + std::string("{}\0", 3)}) {
    EXPECT_EQ(status_of(none), 400) << none;
  }
}

// Random JSON, with what a writer may choose: space, escapes in names, names twice.
class RandomJson {
 public:
  explicit RandomJson(uint64_t seed) : random_(seed) {}

  std::string object(int depth) {
    std::string text = space() + "{" + space();
    for (int n = below(4); n > 0; --n) {
      text += name() + space() + ":" + value(depth) + (n > 1 ? "," : "") + space();
    }
    return text + "}" + space();
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  std::string space() {
    static const std::vector<std::string> kSpaces = {"", "", " ", "\t", "\r\n", " \n "};
    return kSpaces[static_cast<size_t>(below(static_cast<int>(kSpaces.size())))];
  }
  std::string name() {
    static const std::vector<std::string> kNames = {R"("stop")",
                                                    R"("st\u006fp")",
                                                    R"("a\"b")",
                                                    R"("json_schema")",
                                                    R"("json\u005Fschema")",
                                                    R"("\\")",
                                                    R"("")",
                                                    R"("n\n")",
                                                    R"("{")"};
    return space() + kNames[static_cast<size_t>(below(static_cast<int>(kNames.size())))];
  }
  std::string value(int depth) {
    static const std::vector<std::string> kValues = {
        "1", "-0.5e3", "null", "true", R"("}")", R"("\\")", R"("\",")", "[]", R"("\u005d")"};
    const int kind = depth > 0 ? below(3) : 0;
    if (kind == 1) return object(depth - 1);
    if (kind == 2) return space() + "[" + value(depth - 1) + "," + value(depth - 1) + "]" + space();
    return space() + kValues[static_cast<size_t>(below(static_cast<int>(kValues.size())))];
  }

  std::mt19937_64 random_;
};

TEST(JsonFields, WhatIsParsedIsFoundInTheText) {
  size_t n_found = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    const std::string body = (seed % 2 == 0 ? kMark : "") + RandomJson(seed).object(4);
    const ParsedJson parsed = parse_object(body);
    for (const auto& [name, value] : parsed.json.items()) {
      const std::optional<std::string_view> text = raw_member(body, {name});
      ASSERT_TRUE(text) << body;
      EXPECT_EQ(Json::parse(*text), value) << body;
      ++n_found;
      if (!value.is_object()) continue;
      for (const auto& [inner, its_value] : value.items()) {
        const std::optional<std::string_view> its_text = raw_member(body, {name, inner});
        ASSERT_TRUE(its_text) << body;
        EXPECT_EQ(Json::parse(*its_text), its_value) << body;
      }
    }
  }
  EXPECT_GT(n_found, 500u);
}

TEST(JsonFields, MembersHaveAKindAndARange) {
  const Json json = Json::parse(
      R"({"b":true,"t":"x","i":5,"r":0.5,"w":8.0,"n":null,"big":18446744073709551615,"l":[],"o":{}})");
  const Fields fields(json);
  EXPECT_TRUE(fields.flag("b", false));
  EXPECT_TRUE(fields.flag("n", true));
  EXPECT_EQ(fields.text("t"), "x");
  EXPECT_EQ(fields.text("n"), std::nullopt);
  EXPECT_EQ(fields.integer("i", 0, 5), 5);
  EXPECT_EQ(fields.integer("w", 0, 8), 8);
  EXPECT_EQ(fields.number("r", 0.0, 1.0), 0.5);
  EXPECT_NE(fields.list("l"), nullptr);
  EXPECT_EQ(fields.object("n"), nullptr);
  EXPECT_THROW((void)fields.flag("i", false), ApiError);
  EXPECT_THROW((void)fields.text("i"), ApiError);
  EXPECT_THROW((void)fields.integer("i", 0, 4), ApiError);
  EXPECT_THROW((void)fields.integer("r", 0, 4), ApiError);
  EXPECT_THROW((void)fields.integer("big", 0, 4), ApiError);
  EXPECT_THROW((void)fields.number("t", 0.0, 1.0), ApiError);
  EXPECT_THROW((void)fields.number("i", 0.0, 1.0), ApiError);
  EXPECT_THROW((void)fields.list("o"), ApiError);
  EXPECT_THROW((void)fields.object("l"), ApiError);
}

TEST(JsonFields, TokenIdsAreBelowTheVocabulary) {
  EXPECT_EQ(token_id(Json(7), 8, "p"), 7u);
  EXPECT_EQ(token_id(Json(7.0), 8, "p"), 7u);
  for (const Json& none : {Json(8), Json(-1), Json(1.5), Json("1"), Json(nullptr),
                           Json(18446744073709551615u), Json(4294967296u)}) {
    EXPECT_THROW(token_id(none, 8, "p"), ApiError) << none;
  }
}

TEST(JsonFields, ErrorsHaveTheirFourMembers) {
  const Json error =
      Json::parse(ApiError(ContextSizes{700, 512, "shorten it"}).json(WireForm::kEvents))["error"];
  EXPECT_EQ(error["type"], "exceed_context_size_error");
  EXPECT_EQ(error["code"], 400);
  EXPECT_TRUE(error["param"].is_null());
  EXPECT_EQ(error["n_prompt_tokens"], 700);
  EXPECT_EQ(error["n_ctx"], 512);
  EXPECT_EQ(error["message"],
            "the request has 700 tokens and exceeds the available context size of 512 tokens; "
            "shorten it");
}

}  // namespace
}  // namespace cria::hosted
