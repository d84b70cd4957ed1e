// cria_call_grammar.h over made vocabularies: what is drawn under its masks is read as calls, and
// their arguments satisfy the tools' schemas.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
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
  // Text may end in the middle of thinking.
  EXPECT_TRUE(has_text || answer.at("complete")) << text;
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

// The mask leaves exactly the tokens that can be taken.
void compare_mask(const cria_model* model, GrammarTrial* trial, size_t* n_compared) {
  const std::vector<uint32_t> left = trial->allowed();
  ASSERT_FALSE(left.empty()) << trial->text();
  size_t k = 0;
  for (uint32_t token = 0; token < cria_vocab_size(model); ++token) {
    cria_call_state behind = trial->state();
    const bool can = cria_call_grammar_accept(trial->get(), &behind, token) == CRIA_OK;
    const bool is_left = k < left.size() && left[k] == token;
    ASSERT_EQ(is_left, can) << trial->text() << "\n" << token << ": " << trial->bytes_of(token);
    k += is_left ? 1 : 0;
    ++*n_compared;
  }
}

void compare_masks(const json& form, const char* tools, const cria_call_order& order,
                   Markers markers, uint32_t seed, size_t* n_compared) {
  SCOPED_TRACE(form.at("templates").at(0).get<std::string>());
  std::mt19937 random(seed);
  const auto vocabulary = test::vocabulary_for(form, markers);
  const cria_model* const model = vocabulary->model();
  GrammarTrial trial(model, test::stored_call_form(form), tools, order);
  ASSERT_EQ(trial.status(), CRIA_OK);
  const std::string start = first_of(form, "start");
  ASSERT_EQ(trial.begin(""), CRIA_OK);
  for (size_t i = 0; i < 60; ++i) {
    compare_mask(model, &trial, n_compared);
    if (testing::Test::HasFailure()) return;
    const std::vector<uint32_t> left = trial.allowed();
    uint32_t token = left[random() % left.size()];
    // Text seldom comes to a marker by chance.
    if (order.choice == CRIA_TOOLS_AUTO && i % 5 == 4) {
      static_cast<void>(trial.accept_bytes(start.substr(0, 1 + random() % (start.size() + 1))));
      continue;
    }
    if (cria_is_end_token(model, token) != 0 || trial.progress() == CRIA_CALL_CLOSED) break;
    ASSERT_TRUE(trial.accept(token));
  }
}

TEST(CallGrammar, AMaskLeavesWhatCanBeTaken) {
  test::for_each_seed({3}, [](uint32_t seed) {
    size_t n_compared = 0;
    for (const json& form : test::call_forms()) {
      for (const Markers markers : {Markers::kSpecial, Markers::kPlain}) {
        for (const cria_tool_choice choice :
             {CRIA_TOOLS_AUTO, CRIA_TOOLS_NONE, CRIA_TOOLS_REQUIRED}) {
          cria_call_order order = order_of(choice);
          order.thinks = choice == CRIA_TOOLS_REQUIRED ? 1 : 0;
          compare_masks(form, kManyTools, order, markers, seed, &n_compared);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
    EXPECT_GT(n_compared, 100000U);
  });
}

// Of a sample each form has one of the lists of tools.
TEST(CallGrammar, WhatIsDrawnIsReadAsCallsOfTheTools) {
  const std::array<const char*, 3> lists = {kPlainTools, kManyTools, kOddTools};
  test::for_each_seed({1, 2}, [&](uint32_t seed) {
    Walked walked;
    size_t n_forms = 0;
    for (const json& form : test::call_forms()) {
      ++n_forms;
      for (size_t i = 0; i < lists.size(); ++i) {
        if (test::sweep_step() != 1 && i != (n_forms + seed) % lists.size()) continue;
        const char* const tools = lists[i];
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
    EXPECT_GT(walked.n_answers, test::sweep_step() == 1 ? 1000U : 300U);
    EXPECT_GT(walked.n_calls, walked.n_answers);
  });
}

TEST(CallGrammar, TextIsFreeUntilACallBegins) {
  test::for_each_seed({4}, [](uint32_t seed) {
    Walked walked;
    for (const json& form : test::call_forms()) {
      if (!form.contains("start")) continue;
      for (const Markers markers : {Markers::kSpecial, Markers::kPlain}) {
        walk_form(form, kManyTools, order_of(CRIA_TOOLS_AUTO), markers, seed, &walked);
        if (testing::Test::HasFailure()) return;
      }
    }
    EXPECT_GT(walked.n_answers, 200U);
    EXPECT_GE(walked.n_calls, walked.n_answers);
  });
}

TEST(CallGrammar, TextLeavesLogitsAsTheyAre) {
  for (const json& form : test::call_forms()) {
    SCOPED_TRACE(form.at("templates").at(0).get<std::string>());
    const auto vocabulary = test::vocabulary_for(form, Markers::kSpecial);
    GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), kPlainTools,
                       order_of(CRIA_TOOLS_AUTO));
    ASSERT_EQ(trial.status(), CRIA_OK);
    ASSERT_EQ(trial.begin(""), CRIA_OK);
    ASSERT_TRUE(trial.accept_bytes("Hello, "));
    EXPECT_EQ(trial.progress(), CRIA_CALL_TEXT);
    std::vector<float> logits(cria_vocab_size(vocabulary->model()), -3e38f);
    logits[7] = std::nanf("");
    ASSERT_EQ(cria_call_grammar_mask(trial.get(), &trial.state(), logits.data(), logits.size()),
              CRIA_OK);
    EXPECT_TRUE(std::isnan(logits[7]));
    EXPECT_EQ(std::count(logits.begin(), logits.end(), -3e38f),
              static_cast<ptrdiff_t>(logits.size() - 1));
  }
}

// With blanks that are none of the marker's, as a reader finds it.
TEST(CallGrammar, AMarkerIsFoundAsAReaderFindsIt) {
  const auto form = test::call_forms().at(5);  // Action: ```json
  const auto vocabulary = test::vocabulary_for(form, Markers::kPlain);
  GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), kPlainTools,
                     order_of(CRIA_TOOLS_AUTO));
  for (const char* const begun :
       {"Action:```json", "Action: \n ```json", "Act Action:\t```json\n"}) {
    ASSERT_EQ(trial.begin(""), CRIA_OK);
    ASSERT_TRUE(trial.accept_bytes(begun)) << begun;
    EXPECT_EQ(trial.progress(), CRIA_CALL_OPEN) << begun;
    EXPECT_FALSE(trial.accept_bytes("x"));
    EXPECT_TRUE(trial.accept_bytes("{\"tool_name\": \"f\", \"parameters\": {"));
  }
  ASSERT_EQ(trial.begin(""), CRIA_OK);
  ASSERT_TRUE(trial.accept_bytes("Action: ```js and Action ```json{"));
  EXPECT_EQ(trial.progress(), CRIA_CALL_TEXT);
}

TEST(CallGrammar, NoneNeverBeginsACall) {
  test::for_each_seed({5}, [](uint32_t seed) {
    size_t n_answers = 0;
    for (const json& form : test::call_forms()) {
      SCOPED_TRACE(form.at("templates").at(0).get<std::string>());
      std::mt19937 random(seed);
      const auto vocabulary = test::vocabulary_for(form, Markers::kSpecial);
      GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), kPlainTools,
                         order_of(CRIA_TOOLS_NONE));
      ASSERT_EQ(trial.status(), CRIA_OK);
      const std::string start = first_of(form, "start");
      for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(trial.begin(""), CRIA_OK);
        EXPECT_FALSE(!start.empty() && trial.accept_bytes(start)) << start;
        static_cast<void>(trial.accept_bytes(i == 0 ? "{\"name\": \"f\"" : "[f(n=1)"));
        ASSERT_TRUE(trial.draw(&random, {"[{\"", start}) || trial.text().size() > 1000);
        EXPECT_EQ(check_answer(form, kPlainTools, "", trial.text(), true), 0U) << trial.text();
        ++n_answers;
      }
    }
    EXPECT_GT(n_answers, 90U);
  });
}

TEST(CallGrammar, ABareCallIsHeldFromItsFirstKey) {
  const auto forms = test::call_forms();
  const auto& form = *std::find_if(forms.begin(), forms.end(), [](const json& f) {
    return f.at("templates").at(0) == "llama-3.1-8b-instruct";
  });
  const auto vocabulary = test::vocabulary_for(form, Markers::kPlain);
  GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), kPlainTools,
                     order_of(CRIA_TOOLS_AUTO));
  const auto takes = [&](std::string_view text) {
    return trial.begin("") == CRIA_OK && trial.accept_bytes(text);
  };
  EXPECT_TRUE(takes("{\"name\": \"f\", \"parameters\": {\"t\": \"x\", \"e\": \"a\"}}"));
  EXPECT_EQ(trial.progress(), CRIA_CALL_WHOLE);
  EXPECT_TRUE(takes(" {\n  \"name\": \"f\", \"parameters\": {\"t"));
  EXPECT_TRUE(takes("{\"type\": \"function\", \"name\": \"f\", \"parameters\": {\"t"));
  EXPECT_TRUE(takes("[{\"name\": \"f\""));
  EXPECT_FALSE(takes("{\"name\": \"g"));
  EXPECT_FALSE(takes("{\"parameters\""));
  EXPECT_FALSE(takes("{\"na\\"));
  EXPECT_TRUE(takes("{\"type\":\"function\",\"name\":"));
  EXPECT_FALSE(takes("{\"type\":\"function\"}"));
  // What begins otherwise is text, whatever it is.
  for (const char* const text :
       {"{\"names\": 1}", "{\"city\": {\"name\": \"g\"}}", "[1, {\"name\":", "a {\"name\": \"g",
        "{}", "{ }{\"name\":\"g", "[]", "{\"type\": \"object\"}"}) {
    EXPECT_TRUE(takes(text)) << text;
    EXPECT_EQ(trial.progress(), CRIA_CALL_TEXT) << text;
  }
}

TEST(CallGrammar, ThinkingMayComeFirst) {
  test::for_each_seed({6}, [](uint32_t seed) {
    size_t n_thought = 0;
    for (const json& form : test::call_forms()) {
      if (!form.contains("thinking_begin")) continue;
      SCOPED_TRACE(form.at("templates").at(0).get<std::string>());
      std::mt19937 random(seed);
      const auto vocabulary = test::vocabulary_for(form, Markers::kSpecial);
      cria_call_order order = order_of(CRIA_TOOLS_REQUIRED);
      order.thinks = 1;
      GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), kPlainTools, order);
      ASSERT_EQ(trial.status(), CRIA_OK);
      const std::string begin = first_of(form, "thinking_begin");
      const std::string end = first_of(form, "thinking_end");
      for (const bool is_opened : {false, true}) {
        const std::string opened = is_opened ? begin : "";
        ASSERT_EQ(trial.begin(opened), CRIA_OK);
        ASSERT_TRUE(is_opened || trial.accept_bytes(begin));
        ASSERT_TRUE(trial.accept_bytes("Hm, a <b> thought."));
        EXPECT_EQ(trial.progress(), CRIA_CALL_OPEN);
        ASSERT_TRUE(trial.accept_bytes(end)) << end;
        EXPECT_FALSE(trial.accept_bytes("Text"));
        const bool is_whole = trial.draw(&random, test::endings_of(form));
        ASSERT_TRUE(is_whole || trial.text().size() > 1000) << trial.text();
        if (!is_whole) continue;
        CallTrial reader(test::stored_call_form(form), kPlainTools, kHold);
        reader.run(opened, trial.text(), 1, CRIA_CALLS_STOPPED, nullptr);
        EXPECT_EQ(reader.answer().at("reasoning"), "Hm, a <b> thought.") << trial.text();
        n_thought += check_answer(form, kPlainTools, opened, trial.text(), false) > 0;
      }
    }
    EXPECT_GT(n_thought, 20U);
  });
}

// Where nobody asked for thinking that the prompt opened.
TEST(CallGrammar, ThinkingThatIsOpenIsClosedAtOnce) {
  for (const json& form : test::call_forms()) {
    if (!form.contains("thinking_begin")) continue;
    SCOPED_TRACE(form.at("templates").at(0).get<std::string>());
    const auto vocabulary = test::vocabulary_for(form, Markers::kPlain);
    GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), kPlainTools,
                       order_of(CRIA_TOOLS_REQUIRED));
    ASSERT_EQ(trial.begin(first_of(form, "thinking_begin") + "so"), CRIA_OK);
    EXPECT_TRUE(trial.forced().starts_with(first_of(form, "thinking_end"))) << trial.forced();
    ASSERT_EQ(trial.begin(first_of(form, "thinking_begin") + first_of(form, "thinking_end")),
              CRIA_OK);
    EXPECT_FALSE(trial.accept_bytes("so"));
  }
}

TEST(CallGrammar, AnOpenedCallGoesOn) {
  test::for_each_seed({7}, [](uint32_t seed) {
    size_t n_calls = 0;
    for (const json& form : test::call_forms()) {
      if (!form.contains("start")) continue;
      SCOPED_TRACE(form.at("templates").at(0).get<std::string>());
      std::mt19937 random(seed);
      const auto vocabulary = test::vocabulary_for(form, Markers::kPlain);
      for (const cria_tool_choice choice : {CRIA_TOOLS_AUTO, CRIA_TOOLS_REQUIRED}) {
        GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), kPlainTools,
                           order_of(choice));
        const std::string opened = "<|turn|>" + first_of(form, "start");
        ASSERT_EQ(trial.begin(opened), CRIA_OK);
        EXPECT_EQ(trial.progress(), CRIA_CALL_OPEN);
        const bool is_whole = trial.draw(&random, test::endings_of(form));
        ASSERT_TRUE(is_whole || trial.text().size() > 1000) << trial.text();
        if (!is_whole) continue;
        n_calls += check_answer(form, kPlainTools, opened, trial.text(), false);
      }
    }
    EXPECT_GT(n_calls, 60U);
  });
}

TEST(CallGrammar, ANamedToolIsTheOnlyOne) {
  test::for_each_seed({8}, [](uint32_t seed) {
    for (const json& form : test::call_forms()) {
      SCOPED_TRACE(form.at("templates").at(0).get<std::string>());
      std::mt19937 random(seed);
      const auto vocabulary = test::vocabulary_for(form, Markers::kSpecial);
      cria_call_order order = order_of(CRIA_TOOLS_NAMED);
      order.name = "get";
      order.n_name = 3;
      order.one_call = 1;
      GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), kManyTools, order);
      ASSERT_EQ(trial.status(), CRIA_OK) << trial.problem().schema.reason;
      ASSERT_EQ(trial.begin(""), CRIA_OK);
      ASSERT_TRUE(trial.draw(&random, test::endings_of(form)));
      CallTrial reader(test::stored_call_form(form), kManyTools, kHold);
      reader.run("", trial.text(), 1, CRIA_CALLS_STOPPED, nullptr);
      ASSERT_EQ(reader.answer().at("calls").size(), 1U) << trial.text();
      EXPECT_EQ(reader.answer().at("calls").at(0).at("name"), "get");
    }
  });
}

// Schemas made up at random, in each way in which arguments are written.
TEST(CallGrammar, ArgumentsSatisfyAnySchemaThatIsTaken) {
  const std::vector<std::string> names = {"qwen2.5-7b-instruct", "lfm2",
                                          "qwen3-coder-30b",     "glm-4.6",
                                          "gemma-4-31b",         "functiongemma-270m"};
  test::for_each_seed({11}, [&](uint32_t seed) {
    std::mt19937 random(seed);
    size_t n_taken = 0;
    size_t n_answers = 0;
    // Few enough that some are taken.
    const size_t step = std::min<size_t>(test::sweep_step(), 7);
    for (size_t i = 0; i < 150; i += step) {
      const std::string schema = test::random_schema(&random);
      const std::string tools = R"([{"name": "f", "strict": true, "parameters": )" + schema + "}]";
      for (const std::string& name : names) {
        const auto& forms = test::call_forms();
        const json& form = *std::find_if(forms.begin(), forms.end(), [&](const json& f) {
          return f.at("templates").at(0) == name;
        });
        const auto vocabulary = test::vocabulary_for(form, Markers::kSpecial);
        cria_call_order order = order_of(CRIA_TOOLS_REQUIRED);
        order.one_call = 1;
        GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), tools, order);
        if (trial.status() != CRIA_OK) continue;
        ++n_taken;
        ASSERT_EQ(trial.begin(""), CRIA_OK);
        const bool is_whole = trial.draw(&random, test::endings_of(form));
        ASSERT_TRUE(is_whole || trial.text().size() > 1000) << name << ": " << schema << "\n"
                                                            << trial.text();
        if (!is_whole) continue;
        EXPECT_EQ(check_answer(form, tools.c_str(), "", trial.text(), false), 1U)
            << name << ": " << schema;
        if (testing::Test::HasFailure()) return;
        ++n_answers;
      }
    }
    std::printf("%zu taken, %zu answers\n", n_taken, n_answers);
    EXPECT_GT(n_answers, 30U / step);
  });
}

TEST(CallGrammarTest, IdsHaveTheLengthThatAFormSays) {
  const auto takes = [](json form, const std::string& id) {
    const auto vocabulary = test::vocabulary_for(form, Markers::kPlain);
    const bool is_named = form.at("kind") == "named";
    GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), kPlainTools,
                       order_of(CRIA_TOOLS_REQUIRED));
    EXPECT_EQ(trial.status(), CRIA_OK);
    EXPECT_EQ(trial.begin(""), CRIA_OK);
    const std::string before = is_named ? "[TOOL_CALLS]f[CALL_ID]" : R"([TOOL_CALLS] [{"id": ")";
    EXPECT_TRUE(trial.accept_bytes(before + id.substr(0, id.size() - 1)));
    return trial.accept_bytes(id.substr(id.size() - 1) + (is_named ? "[ARGS]{" : R"(", "name")"));
  };
  size_t n_forms = 0;
  for (json form : test::call_forms()) {
    if (!form.contains("id_characters")) continue;
    ++n_forms;
    EXPECT_TRUE(takes(form, "Ab3de6gh9"));
    EXPECT_FALSE(takes(form, "Ab3de6gh"));
    EXPECT_FALSE(takes(form, "Ab3de6gh9j"));
    EXPECT_FALSE(takes(form, "Ab3d-"));
    form.erase("id_characters");
    EXPECT_TRUE(takes(form, "Ab3d-6_h"));
    EXPECT_TRUE(takes(form, "Ab3de6gh9j"));
  }
  EXPECT_EQ(n_forms, 2U);
}

}  // namespace
}  // namespace cria::calls
