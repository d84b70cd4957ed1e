// cria_call_grammar.h over made vocabularies: what is drawn under its masks is read as calls, and
// their arguments satisfy the tools' schemas.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <random>

#include <cria_call_grammar.h>
#include "tests/support/call_trial.h"
#include "tests/support/grammar_trial.h"
#include "tests/support/json_trial.h"
#include "tests/support/sampling.h"
#include "tests/support/seeds.h"

namespace cria::calls {
namespace {

using nlohmann::json;
using test::CallTrial;
using test::GrammarTrial;
using test::Markers;

constexpr size_t kHold = 4096;

constexpr const char* kPlainTools = R"([
  {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
    "t": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": ["string", "null"]},
    "e": {"type": "string", "enum": ["a", "b c", "<d>"]}}, "required": ["t", "e"]}}}])";

constexpr const char* kManyTools = R"([
  {"type": "function", "function": {"name": "get", "strict": true, "parameters": {
    "type": "object", "additionalProperties": false, "properties": {
      "id": {"type": "string", "pattern": "^[a-z<]{2,5}$"},
      "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
      "deep": {"type": "object", "properties": {"x": {"type": "number", "minimum": 0},
               "y": {"type": "string", "maxLength": 4}}, "required": ["x"]}}}}},
  {"type": "function", "function": {"name": "get_time", "description": "no parameters"}},
  {"name": "set-it", "parameters": {"type": "object", "additionalProperties": {"type": "boolean"}}},
  {"type": "function", "function": {"name": "any.thing", "parameters": {"type": "object"}}},
  {"type": "function", "function": {"name": "choose", "parameters": {"type": "object", "properties": {
      "a": {"anyOf": [{"type": "string", "minLength": 2}, {"type": "null"}]},
      "b": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
      "c": {"enum": ["x", null]}, "d": {"const": "k"}, "f": {"type": "string", "format": "date"},
      "g": {"type": "string", "minLength": 1, "maxLength": 3}}, "required": ["a", "c"]}}}])";

constexpr const char* kOddTools = R"([
  {"type": "function", "function": {"name": "tree", "parameters": {"type": "object", "properties": {
      "left": {"$ref": "#"}, "v": {"type": "boolean"}, "two words": {"type": "integer"},
      "a=b": {"type": "string"}, "w": {"type": "array", "items": {"enum": ["p", 1, true]}}},
    "required": ["v"]}}},
  {"type": "function", "function": {"name": "page", "parameters": {"type": "object", "properties": {
      "url": {"type": "string", "format": "uri", "minLength": 3},
      "n": {"type": "integer", "not": {"const": 3}, "maximum": 9}}, "minProperties": 1}}}])";

// A tool's schema as its arguments must satisfy it, by the specification: what is lenient is in
// the tools above such that a value may satisfy it by what is understood.
std::map<std::string, json> schemas_of(const char* tools) {
  std::map<std::string, json> schemas;
  for (const json& tool : json::parse(tools)) {
    const json& function = tool.contains("function") ? tool.at("function") : tool;
    schemas[function.at("name")] =
        function.value("parameters", json{{"type", "object"}, {"maxProperties", 0}});
  }
  return schemas;
}

cria_call_order order_of(cria_tool_choice choice) {
  cria_call_order order = {};
  order.choice = choice;
  return order;
}

std::string first_of(const json& form, const char* key) {
  return form.contains(key) ? form.at(key).at(0).get<std::string>() : std::string();
}

// Reads the text as an answer and holds its calls against the tools; returns their number.
size_t check_answer(const json& form, const char* tools, std::string_view opened,
                    const std::string& text, bool has_text) {
  const auto schemas = schemas_of(tools);
  CallTrial reader(test::stored_call_form(form), tools, kHold);
  reader.run(opened, text, text.size() + 1, CRIA_CALLS_STOPPED, nullptr);
  const json answer = reader.answer();
  EXPECT_TRUE(answer.at("complete")) << text;
  EXPECT_TRUE(has_text || answer.at("content").is_null()) << text << "\n" << answer.dump();
  for (const json& call : answer.at("calls")) {
    const auto found = schemas.find(call.at("name"));
    EXPECT_NE(found, schemas.end()) << text;
    if (found == schemas.end()) continue;
    EXPECT_TRUE(test::satisfies(found->second, found->second, call.at("arguments"))) << text << "\n"
                                                                                     << call.dump();
    EXPECT_TRUE(!found->second.contains("maxProperties") || call.at("arguments").empty());
  }
  return answer.at("calls").size();
}

struct Walked {
  size_t n_answers = 0;
  size_t n_calls = 0;
};

void walk_form(const json& form, const char* tools, const cria_call_order& order, Markers markers,
               uint32_t seed, Walked* walked) {
  SCOPED_TRACE(form.at("templates").at(0).get<std::string>());
  std::mt19937 random(seed);
  const auto vocabulary = test::vocabulary_for(form, markers);
  const auto stored = test::stored_call_form(form);
  GrammarTrial trial(vocabulary->model(), stored, tools, order);
  ASSERT_EQ(trial.status(), CRIA_OK)
      << trial.problem().tool << ": " << trial.problem().schema.reason;
  const auto endings = test::endings_of(form);
  const std::string start = first_of(form, "start");
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(trial.begin(""), CRIA_OK);
    if (order.choice == CRIA_TOOLS_AUTO) {
      ASSERT_TRUE(trial.accept_bytes(i % 2 == 0 || start.empty() ? "" : "Text. "));
      ASSERT_TRUE(trial.accept_bytes(start.empty() ? "[" : start));
    }
    const bool is_whole = trial.draw(&random, endings);
    ASSERT_TRUE(is_whole || trial.text().size() > 1000) << trial.text();
    if (!is_whole) continue;
    const size_t n = check_answer(form, tools, "", trial.text(), order.choice == CRIA_TOOLS_AUTO);
    ++walked->n_answers;
    walked->n_calls += n;
    EXPECT_TRUE(n > 0 || order.choice < CRIA_TOOLS_REQUIRED) << trial.text();
    EXPECT_TRUE(n <= 1 || order.one_call == 0) << trial.text();
  }
}

TEST(CallGrammar, WhatIsDrawnIsReadAsCallsOfTheTools) {
  test::for_each_seed({1, 2}, [](uint32_t seed) {
    Walked walked;
    for (const json& form : test::call_forms()) {
      for (const char* const tools : {kPlainTools, kManyTools, kOddTools}) {
        for (const Markers markers : {Markers::kSpecial, Markers::kPlain}) {
          cria_call_order order = order_of(CRIA_TOOLS_REQUIRED);
          walk_form(form, tools, order, markers, seed, &walked);
          order.one_call = 1;
          walk_form(form, tools, order, markers, seed, &walked);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
    std::printf("%zu answers, %zu calls\n", walked.n_answers, walked.n_calls);
    EXPECT_GT(walked.n_answers, 1000U);
    EXPECT_GT(walked.n_calls, walked.n_answers);
  });
}

}  // namespace
}  // namespace cria::calls
