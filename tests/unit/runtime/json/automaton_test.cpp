// Documents byte by byte: those that schemas take and those that they do not, and documents of
// random bytes held against a reading of the schemas that shares nothing with the runtime's.
#include "runtime/json/automaton.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>

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
      // References with the escapes of pointers, URIs and JSON.
      {R"({"$ref":"#/$defs/a~1b","$defs":{"a/b":{"type":"null"}}})", {"null"}, {"1"}},
      {R"({"$ref":"#/%24defs/%7E0%C3%A9~01","$defs":{"~\u00e9~1":{"type":"null"}}})",
       {"null"},
       {"1"}},
      {R"({"$ref":"#\/$defs\u002f\"","$defs":{"\"":{"type":"null"}}})", {"null"}, {"1"}},
      {R"({"$ref":"#/$defs//","$defs":{"":{"":{"type":"null"}}}})", {"null"}, {"1"}},
      // What restricts nothing.
      {R"({"type":"object","propertyNames":{"type":"string","title":"n"},"additionalProperties":{"type":"null"},"x-order":{"a":[1]}})",
       {"{\"a\":null}"},
       {"{\"a\":1}"}},
      {R"({"type":"array","uniqueItems":false,"unevaluatedItems":true,"minContains":1,"not":false,"nullable":false,"minProperties":0,"patternProperties":{},"dependentRequired":{},"dependentSchemas":{},"unevaluatedProperties":{},"propertyNames":true,"contentMediaType":"x","example":1,"items":{"type":"null"}})",
       {"[null,null]"},
       {"null", "[1]"}},
      {R"({"type":"string","nullable":true,"maxLength":1})", {"\"a\"", "null"}, {"1", "\"ab\""}},
      {R"({"type":["integer"],"nullable":true,"enum":[1,null,"a"]})", {"1", "null"}, {"\"a\""}},
      {R"({"type":"number","multipleOf":1,"maximum":7})", {"7", "-2"}, {"1.5", "8"}},
      {R"({"type":["integer","string"],"format":"uuid"})",
       {"12", "\"f81d4fae-7dec-41d0-a765-00a0c91e6bf6\""},
       {"\"f81d4fae-7dec-41d0-a765-00a0c91e6bf\"", "\"a\""}},
      {R"({"type":"string","format":"date"})",
       {"\"2026-11-27\"", "\"2024-02-29\"", "\"2000-02-29\"", "\"0004-02-29\"", "\"9999-12-31\""},
       {"\"2026-02-29\"", "\"1900-02-29\"", "\"2026-02-30\"", "\"2026-04-31\"", "\"0000-01-01\"",
        "\"2026-13-01\"", "\"2026-00-10\"", "\"2026-1-1\"", "\"\""}},
      {R"({"type":"string","format":"date-time"})",
       {"\"2026-11-27T00:00:00Z\"", "\"2024-02-29T23:59:59.123456+14:00\""},
       {"\"2026-11-27\"", "\"2026-11-27T24:00:00Z\"", "\"2026-11-27T23:59:60Z\"",
        "\"2026-11-27T12:00:00\""}},
      {R"({"type":"string","format":"time"})",
       {"\"12:00:00Z\"", "\"00:00:00.1-08:00\""},
       {"\"12:00Z\""}},
      {R"({"type":"string","format":"email"})",
       {"\"a@b.cd\"", "\"John.D_oe+x@mail-1.example.com\""},
       {"\"a\"", "\"a..b@c.de\"", "\".a@b.cd\"", "\"a.@b.cd\"", "\"a@b\"", "\"a@-b.cd\"",
        "\"a@b-.cd\""}},
      {R"({"type":"string","format":"email","maxLength":8,"minLength":7})",
       {"\"a@bc.def\"", "\"a@bc.de\""},
       {"\"a@b.cd\"", "\"ab@cd.ef.gh\""}},
      {R"({"type":"string","format":"ipv4"})",
       {"\"0.10.199.255\"", "\"1.1.1.1\""},
       {"\"256.1.1.1\"", "\"01.1.1.1\"", "\"1.1.1\"", "\"1.1.1.1.1\""}},
      {R"({"type":"string","format":"ipv6"})",
       {"\"::\"", "\"::1\"", "\"1::\"", "\"2001:db8::ff00:42:8329\"", "\"1:2:3:4:5:6:7:8\"",
        "\"1:2:3:4:5:6:7::\"", "\"::2:3:4:5:6:7:8\"", "\"1:2:3::5:6:7:8\""},
       {"\"1:2:3:4:5:6:7\"", "\"1::2::3\"", "\":1\"", "\"1:\"", "\"12345::\"",
        "\"1:2:3:4:5:6:7:8:9\"", "\"1:2:3:4:5:6:7:8::\"", "\"1:2:3:4::5:6:7:8\"", "\"\""}},
      // Lengths beside a pattern.
      {R"({"type":"string","pattern":"^a*b?$","minLength":2,"maxLength":3})",
       {"\"aa\"", "\"ab\"", "\"aab\"", "\"aaa\""},
       {"\"a\"", "\"b\"", "\"aaaa\"", "\"aaab\""}},
      {R"({"type":"string","pattern":"[\u00e9x]","minLength":2})",
       {"\"\xc3\xa9x\"", "\"x\\n\"", "\"xxxxxx\""},
       {"\"\xc3\xa9\"", "\"ab\""}},
      {R"({"anyOf":[{"type":"string","pattern":"^(ab)+$","maxLength":1},{"type":"null"}]})",
       {"null"},
       {"\"", "\"ab\""}},
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

bool is_leap(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

bool is_date(const std::string& text) {
  int year = 0;
  int month = 0;
  int day = 0;
  char rest = 0;
  if (text.size() != 10) return false;
  if (std::sscanf(text.c_str(), "%4d-%2d-%2d%c", &year, &month, &day, &rest) != 3) return false;
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  if (year < 1 || month < 1 || month > 12 || day < 1) return false;
  return day <= kDays[month - 1] + (month == 2 && is_leap(year) ? 1 : 0);
}

std::string document_of(JsonTrial* trial, std::mt19937* random) {
  for (;;) {
    const std::optional<std::string> document = test::random_document(trial, random);
    if (document) return document->substr(1, document->size() - 2);
  }
}

// Every day of four centuries is taken where there is one.
TEST(JsonAutomaton, TakesTheDaysThatThereAre) {
  JsonTrial trial{R"({"type":"string","format":"date"})"};
  constexpr int kYears = 400;
  size_t n = 0;
  for (int year = 1899; year < 1899 + kYears; year += static_cast<int>(test::sweep_step())) {
    for (int month = 0; month < 14; ++month) {
      for (int day = 26; day < 34; ++day) {
        char text[32];
        std::snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
        ASSERT_EQ(trial.takes("\"" + std::string(text) + "\""), is_date(text)) << text;
        ++n;
      }
    }
  }
  EXPECT_EQ(n, test::sweep_cases(kYears) * 14 * 8);
}

TEST(JsonAutomaton, WritesWhatFormatsSay) {
  std::mt19937 random(3);
  JsonTrial date{R"({"type":"string","format":"date"})"};
  JsonTrial moment{R"({"type":"string","format":"date-time"})"};
  JsonTrial ipv4{R"({"type":"string","format":"ipv4"})"};
  JsonTrial ipv6{R"({"type":"string","format":"ipv6"})"};
  JsonTrial email{R"({"type":"string","format":"email"})"};
  for (int i = 0; i < 300; ++i) {
    const std::string day = document_of(&date, &random);
    EXPECT_TRUE(is_date(day)) << day;
    const std::string both = document_of(&moment, &random);
    EXPECT_TRUE(is_date(both.substr(0, 10)) && both[10] == 'T') << both;
    unsigned char address[sizeof(in6_addr)];
    const std::string v4 = document_of(&ipv4, &random);
    EXPECT_EQ(inet_pton(AF_INET, v4.c_str(), address), 1) << v4;
    const std::string v6 = document_of(&ipv6, &random);
    EXPECT_EQ(inet_pton(AF_INET6, v6.c_str(), address), 1) << v6;
    const std::string mailbox = document_of(&email, &random);
    EXPECT_LE(mailbox.size(), 254u);
    EXPECT_LE(mailbox.find('@'), 64u) << mailbox;
  }
}

// All texts of two letters, against a reading of the pattern by the standard library; and no
// beginning that is taken leads nowhere.
TEST(JsonAutomaton, CountsCharactersBesideAPattern) {
  constexpr size_t kLongest = 6;
  std::vector<std::string> texts = {""};
  for (size_t i = 0; texts[i].size() < kLongest; ++i) {
    for (const char c : {'a', 'b'}) texts.push_back(texts[i] + c);
  }
  size_t n_taken = 0;
  for (const std::string pattern :
       {"^(ab)*$", "^a*b?a$", "b", "^(aab|ba)+$", "^a{2,4}b*$", "^.*ab$"}) {
    for (size_t least = 0; least <= 5; ++least) {
      for (size_t most = least; most <= kLongest; ++most) {
        const bool is_endless = most == kLongest;
        std::string schema = R"({"anyOf":[{"const":0},{"type":"string","pattern":")" + pattern +
                             R"(","minLength":)" + std::to_string(least);
        if (!is_endless) schema += R"(,"maxLength":)" + std::to_string(most);
        JsonTrial trial(schema + "}]}");
        ASSERT_EQ(trial.status(), Status::kOk) << schema;
        std::set<std::string> beginnings;
        for (const std::string& text : texts) {
          const bool fits = text.size() >= least && (is_endless || text.size() <= most) &&
                            std::regex_search(text, std::regex(pattern));
          ASSERT_EQ(trial.takes("\"" + text + "\""), fits) << schema << " " << text;
          n_taken += fits ? 1 : 0;
          for (size_t i = 0; fits && i <= text.size(); ++i) beginnings.insert(text.substr(0, i));
        }
        for (const std::string& text : texts) {
          if (is_endless || !trial.takes_beginning("\"" + text)) continue;
          const bool is_beginning =
              beginnings.contains(text) || pattern[0] != '^' || pattern[1] == '.';
          EXPECT_TRUE(is_beginning) << schema << " " << text;
        }
      }
    }
  }
  EXPECT_GT(n_taken, 500u);
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
