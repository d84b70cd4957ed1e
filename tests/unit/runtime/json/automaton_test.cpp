// Documents byte by byte: those that schemas take and those that they do not, and documents of
// random bytes held against a reading of the schemas that shares nothing with the runtime's.
#include "runtime/json/automaton.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/json_trial.h"
#include "tests/support/sampling.h"
#include "tests/support/seeds.h"

namespace cria::json {
namespace {

using test::JsonTrial;

struct Case {
  const char* schema;
  std::vector<const char*> taken;
  std::vector<const char*> refused;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {"true",
       {"1", "null", "{}", "[1, 2,{\"a\": [true]}]", "\"\\u00e9\"", "-0.5e+7"},
       {" 1", "01", "tru", "{\"a\":1,\"a\":2}", "[1,]", "[ 1]", "\"\t\"", "1.", "-", "nul",
        "[1,  2]", "\"\\ud800\"", "\"\\udc00\"", "\"\\x\""}},
      {R"({"type":"null"})", {"null"}, {"0", "\"null\""}},
      {R"({"type":"boolean"})", {"true", "false"}, {"null", "1"}},
      {R"({"type":["integer","null"]})", {"1", "null", "-17"}, {"1.0", "true", "-0"}},
      {R"({"type":["integer","number"]})", {"1", "1.5"}, {"true"}},
      {R"({"type":"integer","minimum":-5,"exclusiveMaximum":17})",
       {"-5", "0", "16", "9", "10"},
       {"-6", "17", "20", "100", "-50", "1.5", "1e1"}},
      {R"({"type":"integer","minimum":95,"maximum":1005})",
       {"95", "99", "100", "999", "1005"},
       {"9", "94", "1006", "2000", "-95"}},
      {R"({"type":"number","exclusiveMinimum":0,"maximum":0.25})",
       {"0.25", "0.1", "0.000000000000000001", "0.250"},
       {"0", "0.0", "0.26", "1", "-0.1", "0.2500000001", "1e-3"}},
      {R"({"type":"number","minimum":-2.5,"maximum":-1})",
       {"-1", "-2.5", "-1.0", "-2.49"},
       {"-0.9", "-2.51", "1", "-3", "-0.99999"}},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
       {"0.5", "0.000000000000000001", "0.999999999999999"},
       {"0", "1", "0.999999999999999999"}},
      // Bounds beyond all that is written leave all of it, but for exponents.
      {R"({"type":"integer","minimum":-1e300,"maximum":1e300})",
       {"0", "-999999999999999999", "999999999999999999"},
       {"1000000000000000000", "1e5", "1.5"}},
      {R"({"type":"number","exclusiveMinimum":-1e400,"exclusiveMaximum":1e400})",
       {"0.5", "-999999999999990000", "999999999999990000.25"},
       {"1000000000000000000", "1e5"}},
      {R"({"type":"number","maximum":-999999999999990000})",
       {"-999999999999995000", "-999999999999999999"},
       {"-1", "1", "-1000000000000000000"}},
      {R"({"$ref":"#/$defs/café","$defs":{"caf\u00e9":{"type":"null"}}})", {"null"}, {"1"}},
      {R"({"type":"number"})",
       {"0", "-1.25", "1e5", "2E-7", "123456789012345678"},
       {"1234567890123456789", "+1", ".5", "1e", "1e123", "00"}},
      {R"({"type":"string"})",
       {"\"\"", "\"a\\\"b\"", "\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\"", "\"\\/\""},
       {"\"", "\"\xff\"", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\\u12g4\"", "\"\\ud83d\\u0041\"",
        "\"\x01\""}},
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {"\"ab\"", "\"abc\"", "\"\\n\\u0041x\"", "\"\xc3\xa9\xf0\x9f\x98\x80\"",
        "\"\\ud83d\\ude00a\""},
       {"\"a\"", "\"abcd\"", "\"\""}},
      {R"({"type":"string","pattern":"^[a-c]+$"})",
       {"\"a\"", "\"abccba\""},
       {"\"\"", "\"d\"", "\"\\u0061\""}},
      {R"({"type":"string","pattern":"b+"})",
       {"\"b\"", "\"xxbbx\"", "\"\\n b\""},
       {"\"\"", "\"aaa\""}},
      {R"({"type":"string","pattern":"^\\d{4}-\\d{2}$"})",
       {"\"2026-11\""},
       {"\"2026-1\"", "\"2026-111\"", "\"a026-11\""}},
      {R"({"type":"string","pattern":"^[^\\x00-\\x7f]$"})",
       {"\"\xc3\xa9\"", "\"\xf0\x9f\x98\x80\""},
       {"\"a\"", "\"\""}},
      {R"({"type":"string","pattern":"^\u00e9[\u4e00-\u4e05]$"})",
       {"\"\xc3\xa9\xe4\xb8\x85\""},
       {"\"\xc3\xa8", "\"\xc3\xa9\xe4\xb8\x86", "\"\xc3\xa9\xe4\xb9"}},
      {R"({"type":"string","pattern":"^(a|bc){2,3}?$|^x\"$"})",
       {"\"aa\"", "\"abca\"", "\"x\\\"\""},
       {"\"a\"", "\"aaaa\"", "\"x\""}},
      {R"({"enum":["a","ab",1,12,1.5,null,[1,{"b" : 2}]]})",
       {"\"a\"", "\"ab\"", "1", "12", "1.5", "null", "[1,{\"b\":2}]"},
       {"\"abc\"", "2", "123", "[1]", "[1, {\"b\":2}]", "1.", "\"\\u0061\""}},
      {R"({"type":"integer","enum":["a",1,1.5,2.0]})", {"1", "2.0"}, {"\"a\"", "1.5"}},
      {R"({"const":{"a":[true,"\u00e9\/\u0001"]}})",
       {"{\"a\":[true,\"\xc3\xa9/\\u0001\"]}"},
       {"{}", "{\"a\":[]}"}},
      {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
       {"[1]", "[1,2]", "[1, 2, 3]"},
       {"[]", "[1,2,3,4]", "[\"a\"]", "[1 ,2]"}},
      {R"({"type":"array","maxItems":0})", {"[]"}, {"[1]"}},
      {R"({"type":"array","items":false})", {"[]"}, {"[1]"}},
      {R"({"prefixItems":[{"type":"integer"},{"type":"string"}],"items":{"type":"null"},"type":"array"})",
       {"[]", "[1]", "[1,\"a\",null,null]"},
       {"[\"a\"]", "[1,null]", "[1,\"a\",1]"}},
      {R"({"type":"object","properties":{"a":{"type":"integer"},"b":true,"c":{"type":"null"}},"required":["b"]})",
       {"{\"b\":1}", "{\"a\":1,\"b\":2}", "{\"a\": 1, \"b\": 2, \"c\": null}",
        "{\"b\":{},\"c\":null}"},
       {"{}", "{\"a\":1}", "{\"b\":1,\"a\":1}", "{\"b\":1,\"b\":1}", "{\"b\":1,\"d\":1}",
        "{\"a\":\"x\",\"b\":1}", "{\"b\":1,}"}},
      {R"({"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer"}})",
       {"{}", "{\"a\":null}", "{\"b\":1}", "{\"a\":[],\"b\":1,\"c\":2}", "{\"a\\n\":1}",
        "{\"aa\":1,\"\":2}"},
       {"{\"b\":\"x\"}", "{\"b\":1,\"a\":1}", "{\"b\":1,\"b\":1}", "{\"\\u0062\":1}",
        "{\"b\\n\":1,\"b\\n\":1}"}},
      {R"({"type":"object","properties":{"a":{}},"additionalProperties":false})",
       {"{}", "{\"a\":1}"},
       {"{\"b\":1}"}},
      {R"({"type":"object","required":["x"]})",
       {"{\"x\":1}", "{\"x\":1,\"y\":2}"},
       {"{}", "{\"y\":2}"}},
      {R"({"type":"object","properties":{}})", {"{}"}, {"{\"a\":1}"}},
      {R"({"type":"object","properties":{"a":false}})", {"{}"}, {"{\"a\":1}"}},
      {R"({"type":"object"})", {"{}", "{\"a\":{\"b\":[]}}"}, {"[]", "1"}},
      {R"({"anyOf":[{"type":"object","properties":{"k":{"const":"x"},"v":{"type":"integer"}},"required":["k","v"]},{"type":"object","properties":{"k":{"const":"y"},"w":{"type":"null"}},"required":["k","w"]},{"type":"null"}]})",
       {"{\"k\":\"x\",\"v\":1}", "{\"k\":\"y\",\"w\":null}", "null"},
       {"{\"k\":\"x\",\"w\":null}", "{\"k\":\"z\"", "{}"}},
      {R"({"oneOf":[{"type":"integer"},{"type":"string","maxLength":1}]})",
       {"1", "\"a\""},
       {"\"ab\"", "null"}},
      {R"({"oneOf":[{"type":"object","properties":{"t":{"const":"a"}},"required":["t"]},{"type":"object","properties":{"t":{"enum":["b","c"]}},"required":["t"]}]})",
       {"{\"t\":\"a\"}", "{\"t\":\"c\"}"},
       {"{\"t\":\"d\"}", "{}"}},
      {R"({"discriminator":{"mapping":{"a":"#/$defs/A"},"propertyName":"t"},"oneOf":[{"$ref":"#/$defs/A"},{"type":"null"}],"$defs":{"A":{"type":"object","properties":{"t":{"const":"a"}},"required":["t"]}}})",
       {"{\"t\":\"a\"}", "null"},
       {"{\"t\":\"b\"}"}},
      {R"({"allOf":[{"$ref":"#/definitions/n"}],"title":"x","definitions":{"n":{"type":"null"}}})",
       {"null"},
       {"1"}},
      {R"({"$ref":"#/$defs/list","$defs":{"list":{"type":"array","items":{"$ref":"#/$defs/list"}}}})",
       {"[]", "[[],[[]]]"},
       {"[1]"}},
      {R"({"type":"object","properties":{"v":{"type":"integer"},"n":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["v","n"]})",
       {"{\"v\":1,\"n\":null}", "{\"v\":1,\"n\":{\"v\":2,\"n\":null}}"},
       {"{\"v\":1}"}},
      {R"({"type":"array","prefixItems":[{"const":1},{"$ref":"#/prefixItems/0"}],"minItems":2,"items":false})",
       {"[1,1]"},
       {"[1]", "[1,2]", "[1,1,1]"}},
  };
  return list;
}

TEST(JsonAutomaton, TakesWhatTheSchemaAllowsAndNothingElse) {
  size_t n = 0;
  for (const Case& c : cases()) {
    JsonTrial trial{std::string(c.schema)};
    ASSERT_EQ(trial.status(), Status::kOk)
        << c.schema << ": " << trial.refusal().keyword << " "
        << (trial.refusal().reason ? trial.refusal().reason : "");
    for (const char* text : c.taken) {
      EXPECT_TRUE(trial.takes(text)) << c.schema << " " << text;
      ++n;
    }
    for (const char* text : c.refused) {
      EXPECT_FALSE(trial.takes(text)) << c.schema << " " << text;
      ++n;
    }
  }
  EXPECT_GT(n, 200u);
}

// What the schema refuses no byte later than where that is clear.
TEST(JsonAutomaton, RefusesAtTheFirstByteThatCannotBe) {
  const auto dies_at = [](const char* schema, std::string_view text) {
    JsonTrial trial{std::string(schema)};
    size_t n = 0;
    while (n < text.size() && trial.step(text[n])) ++n;
    return n;
  };
  EXPECT_EQ(dies_at(R"({"type":"integer","minimum":95,"maximum":1005})", "2"), 1u);
  EXPECT_EQ(dies_at(R"({"type":"integer","minimum":95,"maximum":1005})", "2000"), 3u);
  EXPECT_EQ(dies_at(R"({"type":"integer","minimum":950,"maximum":1005})", "2"), 0u);
  EXPECT_EQ(dies_at(R"({"enum":["red","green"]})", "\"rx"), 2u);
  EXPECT_EQ(dies_at(R"({"type":"string","pattern":"^[\u00e9]$"})", "\"\xc4"), 1u);
  EXPECT_EQ(dies_at(R"({"type":"string","maxLength":1})", "\"ab"), 2u);
  EXPECT_EQ(dies_at(R"({"type":"string","maxLength":0})", "\"\\"), 1u);
  EXPECT_EQ(dies_at(R"({"type":"object","properties":{"aa":{}}})", "{\"ab"), 3u);
}

std::string nested(size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += i % 2 == 0 ? "[" : "{\"a\":";
  return text;
}

TEST(JsonAutomaton, NestsThirtyTwoDeepAndNoDeeper) {
  JsonTrial any(nullptr, 0);
  ASSERT_EQ(any.status(), Status::kOk);
  EXPECT_TRUE(any.takes_beginning(nested(kMostDepth)));
  EXPECT_TRUE(any.step('1'));
  EXPECT_TRUE(any.takes_beginning(nested(kMostDepth)));
  EXPECT_FALSE(any.step('['));
  EXPECT_FALSE(any.step('{'));
}

TEST(JsonAutomaton, CountsFreeNamesOfOpenObjects) {
  JsonTrial any(nullptr, 0);
  std::string text = "{";
  for (uint32_t i = 0; i < kMostFreeNames; ++i) {
    text += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":1";
  }
  ASSERT_TRUE(any.takes_beginning(text));
  EXPECT_FALSE(any.can_step(','));
  EXPECT_TRUE(any.step('}'));
  EXPECT_TRUE(any.may_end());
  // Those of an object that is closed count no longer.
  EXPECT_TRUE(any.takes_beginning("[" + text + "}," + text));
}

// More alternatives than readings: some are dropped, but what is left is whole.
TEST(JsonAutomaton, LeavesWholeReadingsWhereThereAreTooMany) {
  std::string schema = R"({"type":"array","minItems":2,"items":{"anyOf":[)";
  for (int i = 0; i < 40; ++i) {
    schema += (i == 0 ? "" : ",") +
              std::string(R"({"type":"object","properties":{"same":{"type":"integer"},"k)") +
              std::to_string(i) + R"(":{"type":"integer","minimum":)" + std::to_string(i) +
              R"(}},"required":["same","k)" + std::to_string(i) + R"("]})";
  }
  schema += "]}}";
  JsonTrial trial(schema);
  ASSERT_EQ(trial.status(), Status::kOk);
  const nlohmann::json parsed = nlohmann::json::parse(schema);
  std::mt19937 random(3);
  for (int i = 0; i < 20; ++i) {
    const std::optional<std::string> document = test::random_document(&trial, &random);
    ASSERT_TRUE(document && !document->empty());
    EXPECT_TRUE(test::satisfies(parsed, parsed, test::parse_strictly(*document))) << *document;
  }
}

void write_random_documents(uint32_t seed) {
  constexpr size_t kSchemas = 3000;
  std::mt19937 random(seed);
  size_t n_compiled = 0;
  size_t n_documents = 0;
  for (size_t i = 0; i < kSchemas; i += test::sweep_step()) {
    const std::string schema = test::random_schema(&random);
    JsonTrial trial(schema);
    if (trial.status() != Status::kOk) {
      ASSERT_NE(trial.refusal().reason, nullptr) << schema;
      continue;
    }
    ++n_compiled;
    const nlohmann::json parsed = nlohmann::json::parse(schema);
    for (int k = 0; k < 4; ++k) {
      const std::optional<std::string> document = test::random_document(&trial, &random);
      if (!document) continue;
      ASSERT_FALSE(document->empty()) << schema;
      const nlohmann::json value = test::parse_strictly(*document);
      ASSERT_FALSE(value.is_discarded()) << schema << "\n" << *document;
      ASSERT_TRUE(test::satisfies(parsed, parsed, value)) << schema << "\n" << *document;
      ++n_documents;
    }
  }
  EXPECT_GT(n_compiled * test::sweep_step(), kSchemas / 2);
  EXPECT_GT(n_documents, n_compiled * 3);
}

TEST(JsonAutomaton, RandomBytesAlwaysBecomeAValidDocument) {
  test::for_each_seed({1}, write_random_documents);
}

}  // namespace
}  // namespace cria::json
