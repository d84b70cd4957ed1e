// What cria_call_grammar.h refuses, forces and keeps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include <cria_call_grammar.h>
#include "tests/support/call_trial.h"
#include "tests/support/grammar_trial.h"
#include "tests/support/sampling.h"
#include "tests/support/seeds.h"

namespace cria::calls {
namespace {

using nlohmann::json;
using test::AlignedMemory;
using test::GrammarTrial;
using test::Markers;
using test::need;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "get_time", "parameters": {"type": "object",
   "properties": {"zone": {"type": "string", "enum": ["UTC", "UT1"]}}, "required": ["zone"]}}},
  {"type": "function", "function": {"name": "get_day", "parameters": {"type": "object",
   "properties": {"n": {"type": "integer"}}}}}])";

json form_of(const std::string& name) {
  for (const json& form : test::call_forms()) {
    if (form.at("templates").at(0) == name) return form;
  }
  throw std::runtime_error(name);
}

GrammarTrial trial_of(const char* name, const std::string& tools, const cria_call_order& order) {
  static std::vector<std::unique_ptr<test::MadeVocabulary>> vocabularies;
  const json form = form_of(name);
  vocabularies.push_back(test::vocabulary_for(form, Markers::kSpecial));
  return {vocabularies.back()->model(), test::stored_call_form(form), tools, order};
}

cria_call_order required() {
  cria_call_order order = {};
  order.choice = CRIA_TOOLS_REQUIRED;
  return order;
}

struct Refused {
  const char* form;
  const char* tools;
  const char* tool;
  const char* keyword;
  const char* at;  // what the tools have there
  const char* reason;
};

TEST(CallGrammarApi, WhatIsRefusedIsSaid) {
  constexpr const char* kQwen = "qwen2.5-7b-instruct";
  constexpr const char* kPython = "lfm2";
  constexpr const char* kTagged = "qwen3-coder-30b";
  const Refused cases[] = {
      {kQwen, R"([{"name": "f", "strict": true, "parameters": {"type": "object", "not": {}}}])",
       "f", "not", "\"not\"", "is not supported"},
      {kQwen,
       R"([{"name": "f", "strict": true, "parameters": {"properties": {"u": {"type": "string",
        "format": "uri"}}}}])",
       "f", "format", "\"format\"", "has a value that is not supported"},
      {kQwen, R"([{"name": "f", "strict": true, "parameters": {"type": "string"}}])", "f",
       "parameters", "{\"type\": \"string\"",
       "has no object among its values, or only ones nested too deep"},
      {kQwen, R"([{"name": "a"}, {"name": "a"}])", "a", "name", "[", "appears twice"},
      // The last of two members counts, here and in the prompt.
      {kQwen, R"([{"name": "a", "name": "b"}, {"name": "b"}])", "b", "name", "[", "appears twice"},
      {kQwen, R"([{"name": ""}])", "", "name", "\"\"", "must have 1 to 128 bytes"},
      {kQwen, R"([{"parameters": {}}])", "", "", "{", "has a tool without a name"},
      {kQwen, R"({"name": "f"})", "", "", "{", "is not a list of tools"},
      {kQwen, R"([)", "", "", "", "is not JSON: it ends too early"},
      {kQwen, "[]", "", "", "[", "has no tools"},
      {kPython, R"([{"name": "two words"}])", "two words", "name", "\"two words\"",
       "has other characters than letters, digits, - _ . and /, which the model's form of calls "
       "cannot write"},
      {kPython, R"([{"name": "f", "strict": true, "parameters": {"properties": {"a b": {}},
        "required": ["a b"]}}])",
       "f", "parameters", "{\"properties\"",
       "requires a property whose name the model's form of calls cannot write"},
      {kTagged, R"([{"name": "f", "strict": true, "parameters": {"properties": {"a": {"enum":
        ["x</parameter>"]}}}}])",
       "f", "parameters", "{\"properties\"",
       "has a text that the model's form of calls ends values with"},
      {kTagged, R"([{"name": "f", "strict": true, "parameters": {"anyOf": [{"type": "object"}]}}])",
       "f", "parameters", "{\"anyOf\"",
       "has alternatives, which the model's form of calls cannot write as arguments"}};
  for (const Refused& c : cases) {
    SCOPED_TRACE(c.tools);
    GrammarTrial trial = trial_of(c.form, c.tools, required());
    EXPECT_EQ(trial.status(), CRIA_UNSUPPORTED);
    EXPECT_STREQ(trial.problem().tool, c.tool);
    EXPECT_STREQ(trial.problem().schema.keyword, c.keyword);
    ASSERT_NE(trial.problem().schema.reason, nullptr);
    EXPECT_STREQ(trial.problem().schema.reason, c.reason);
    const size_t at = trial.problem().schema.offset;
    ASSERT_LE(at, std::strlen(c.tools));
    EXPECT_TRUE(std::string_view(c.tools).substr(at).starts_with(c.at)) << c.tools + at;
  }
}

TEST(CallGrammarApi, WithoutStrictTheRestOfASchemaCounts) {
  const char* const tools = R"([{"name": "f", "parameters": {"type": "object", "minProperties": 1,
    "properties": {"url": {"type": "string", "format": "uri", "maxLength": 4},
                   "n": {"oneOf": [{"type": "integer"}, {"minimum": 3, "type": "number"}]},
                   "p": {"type": "string", "pattern": "\\bx"},
                   "q": {"enum": [1], "minimum": 0}}}}])";
  GrammarTrial trial = trial_of("qwen2.5-7b-instruct", tools, required());
  ASSERT_EQ(trial.status(), CRIA_OK) << trial.problem().schema.reason;
  const auto takes = [&](const std::string& arguments) {
    return trial.begin("<tool_call>\n{\"name\": \"f\", \"arguments\": ") == CRIA_OK &&
           trial.accept_bytes(arguments);
  };
  EXPECT_TRUE(takes("{\"url\": \"abcd\", \"n\": 3, \"p\": \"y\", \"q\": [null]}"));
  EXPECT_FALSE(takes("{\"url\": \"abcde"));
  EXPECT_FALSE(takes("{\"n\": \""));
  EXPECT_FALSE(takes("{\"p\": 1"));
  EXPECT_FALSE(takes("{\"other"));
  // What is no schema at all is any object.
  GrammarTrial any =
      trial_of("qwen2.5-7b-instruct", R"([{"name": "f", "parameters": 7}])", required());
  ASSERT_EQ(any.begin("<tool_call>\n{\"name\": \"f\", \"arguments\": "), CRIA_OK);
  EXPECT_FALSE(any.accept_bytes("["));
  EXPECT_TRUE(any.accept_bytes("{\"x\": [1]}}\n</tool_call>"));
}

TEST(CallGrammarApi, ArgumentsOfTheWrongKindAreInvalid) {
  GrammarTrial trial = trial_of("qwen2.5-7b-instruct", kTools, required());
  ASSERT_EQ(trial.begin(""), CRIA_OK);
  cria_call_state state = trial.state();
  size_t n = 0;
  float logits[2] = {};
  cria_call_order order = required();
  EXPECT_EQ(cria_call_grammar_required(nullptr, &order, &n, nullptr), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_call_grammar_begin(nullptr, "", 0, &state), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_call_grammar_begin(trial.get(), nullptr, 1, &state), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_call_grammar_begin(trial.get(), "<tool_call>x", 12, &state),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_call_grammar_mask(trial.get(), &state, logits, 2), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_call_grammar_accept(trial.get(), &trial.state(), 0xffffffff),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_call_grammar_forced(trial.get(), &state, nullptr, 1, &n), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_call_grammar_forced_tokens(trial.get(), &state, nullptr, nullptr, 0, &n),
            CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_call_grammar_progress_of(nullptr, &state), CRIA_CALL_OPEN);
  cria_call_grammar_watch(nullptr, nullptr, nullptr);
}

TEST(CallGrammarApi, MemoryIsCountedToTheByte) {
  const json form = form_of("glm-4.6");
  const auto vocabulary = test::vocabulary_for(form, Markers::kPlain);
  const auto stored = test::stored_call_form(form);
  size_t n_bytes = 0;
  need(cria_json_vocabulary_required(vocabulary->model(), &n_bytes));
  AlignedMemory memory(n_bytes);
  cria_json_vocabulary* made = nullptr;
  need(cria_json_make_vocabulary(memory.data(), n_bytes, vocabulary->model(), &made));
  cria_call_order order = required();
  order.format = stored.data();
  order.n_format = stored.size();
  order.tools = kTools;
  order.n_tools = std::strlen(kTools);
  need(cria_call_grammar_required(made, &order, &n_bytes, nullptr));
  AlignedMemory room(n_bytes + 64);
  cria_call_grammar* grammar = nullptr;
  EXPECT_EQ(cria_call_grammar_make(room.data(), n_bytes - 1, made, &order, &grammar, nullptr),
            CRIA_MEMORY_TOO_SMALL);
  EXPECT_EQ(grammar, nullptr);
  EXPECT_EQ(cria_call_grammar_make(static_cast<char*>(room.data()) + 8, n_bytes, made, &order,
                                   &grammar, nullptr),
            CRIA_MISALIGNED);
  EXPECT_EQ(cria_call_grammar_make(room.data(), n_bytes, made, &order, &grammar, nullptr), CRIA_OK);
  order.n_format = 7;
  EXPECT_EQ(cria_call_grammar_required(made, &order, &n_bytes, nullptr), CRIA_CORRUPT);
}

TEST(CallGrammarApi, WhatHasNoChoiceIsForced) {
  cria_call_order order = required();
  order.choice = CRIA_TOOLS_NAMED;
  order.name = "get_time";
  order.n_name = 8;
  order.one_call = 1;
  GrammarTrial trial = trial_of("qwen3-coder-30b", kTools, order);
  ASSERT_EQ(trial.begin(""), CRIA_OK);
  const std::string begun = "<tool_call>\n<function=get_time>\n<parameter=zone>\nUT";
  EXPECT_EQ(trial.forced(), begun);
  ASSERT_TRUE(trial.accept_bytes(begun));
  EXPECT_EQ(trial.forced(), "");
  ASSERT_TRUE(trial.accept_bytes("C"));
  const std::string end = "\n</parameter>\n</function>\n</tool_call>";
  EXPECT_EQ(trial.forced(), end);
  ASSERT_TRUE(trial.accept_bytes(end));
  EXPECT_EQ(trial.forced(), "");
  EXPECT_EQ(trial.progress(), CRIA_CALL_CLOSED);
  EXPECT_EQ(trial.allowed(), (std::vector<uint32_t>{256}));  // the end token
}

// What is drawn begins with what was forced, wherever it is.
TEST(CallGrammarApi, ForcedBytesAreThoseThatAreDrawn) {
  test::for_each_seed({9}, [](uint32_t seed) {
    size_t n_forced = 0;
    for (const json& form : test::call_forms()) {
      SCOPED_TRACE(form.at("templates").at(0).get<std::string>());
      std::mt19937 random(seed);
      const auto vocabulary = test::vocabulary_for(form, Markers::kSpecial);
      GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), kTools, required());
      ASSERT_EQ(trial.begin(""), CRIA_OK);
      std::vector<std::pair<size_t, std::string>> forced;
      for (int i = 0; i < 200; ++i) {
        forced.emplace_back(trial.text().size(), trial.forced());
        const std::vector<uint32_t> left = trial.allowed();
        const uint32_t token = left[random() % left.size()];
        if (cria_is_end_token(vocabulary->model(), token) != 0) break;
        ASSERT_TRUE(trial.accept(token));
      }
      for (const auto& [at, bytes] : forced) {
        const std::string drawn = trial.text().substr(at);
        const size_t n = std::min(bytes.size(), drawn.size());
        EXPECT_EQ(drawn.substr(0, n), bytes.substr(0, n)) << trial.text();
        n_forced += n;
      }
    }
    EXPECT_GT(n_forced, 5000U);
  });
}

TEST(CallGrammarApi, AMaskIsGivenUpWhenNobodyWantsIt) {
  std::string alternatives;
  for (int i = 0; i < 200; ++i)
    alternatives += "[^" + std::string(1, static_cast<char>('a' + i % 26)) + "]?";
  const std::string tools =
      R"([{"name": "f", "parameters": {"properties": {"x": {"type": "string", "pattern": "^)" +
      alternatives + R"(.{0,50}$"}}}}])";
  const json form = form_of("qwen2.5-7b-instruct");
  const auto vocabulary = test::vocabulary_for(form, Markers::kPlain);
  for (int i = 0; i < 3000; ++i) vocabulary->add("word" + std::to_string(i));
  GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), tools, required());
  ASSERT_EQ(trial.status(), CRIA_OK) << trial.problem().schema.reason;
  ASSERT_EQ(trial.begin("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": \"a"), CRIA_OK);
  size_t n_asked = 0;
  const auto stop = [](void* context) { return ++*static_cast<size_t*>(context) > 1 ? 1 : 0; };
  cria_call_grammar_watch(trial.get(), stop, &n_asked);
  std::vector<float> logits(cria_vocab_size(vocabulary->model()), 1.0f);
  EXPECT_EQ(cria_call_grammar_mask(trial.get(), &trial.state(), logits.data(), logits.size()),
            CRIA_CANCELLED);
  EXPECT_EQ(n_asked, 2U);
  EXPECT_EQ(std::count(logits.begin(), logits.end(), 1.0f), static_cast<ptrdiff_t>(logits.size()));
}

// Whatever bytes a state has, nothing outside of the tables is read.
TEST(CallGrammarApi, ChangedStatesHarmNothing) {
  test::for_each_seed({10}, [](uint32_t seed) {
    std::mt19937 random(seed);
    size_t n_taken = 0;
    size_t n_refused = 0;
    for (const json& form : test::call_forms()) {
      const auto vocabulary = test::vocabulary_for(form, Markers::kSpecial);
      cria_call_order order = required();
      order.thinks = 1;
      GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), kTools, order);
      ASSERT_EQ(trial.begin(""), CRIA_OK);
      std::vector<float> logits(cria_vocab_size(vocabulary->model()));
      for (int i = 0; i < 60; ++i) {
        for (int k = 0; k < 10; ++k) {
          cria_call_state changed = trial.state();
          auto* const bytes = reinterpret_cast<uint8_t*>(changed.bytes);
          // Readings, seldom frames.
          const size_t at = random() % (random() % 4 == 0 ? sizeof changed : 8 + 2 * 56);
          bytes[at] =
              static_cast<uint8_t>(random() % 3 == 0 ? random() : bytes[at] ^ 1u << random() % 8);
          const cria_status status =
              cria_call_grammar_mask(trial.get(), &changed, logits.data(), logits.size());
          ++(status == CRIA_OK ? n_taken : n_refused);
          char text[64];
          size_t n = 0;
          static_cast<void>(cria_call_grammar_forced(trial.get(), &changed, text, sizeof text, &n));
          static_cast<void>(cria_call_grammar_accept(trial.get(), &changed,
                                                     static_cast<uint32_t>(random() % 300)));
          static_cast<void>(cria_call_grammar_progress_of(trial.get(), &changed));
        }
        const std::vector<uint32_t> left = trial.allowed();
        const uint32_t token = left[random() % left.size()];
        if (cria_is_end_token(vocabulary->model(), token) != 0) break;
        ASSERT_TRUE(trial.accept(token));
      }
    }
    EXPECT_GT(n_taken, 1000U);
    EXPECT_GT(n_refused, 1000U);
  });
}

// A model of which the end of a call is an end token.
TEST(CallGrammarApi, AnEndTokenMayBeAMarker) {
  const json form = form_of("gpt-oss");
  const auto vocabulary = test::vocabulary_for(form, Markers::kPlain);
  const uint32_t call = vocabulary->add("<|call|>", format::kTokenSpecial);
  vocabulary->end_also_with(call);
  cria_call_order order = required();
  order.one_call = 1;
  GrammarTrial trial(vocabulary->model(), test::stored_call_form(form), kTools, order);
  ASSERT_EQ(trial.begin("<|channel|>commentary to=functions.get_day<|message|>{}"), CRIA_OK);
  const std::vector<uint32_t> left = trial.allowed();
  EXPECT_NE(std::find(left.begin(), left.end(), call), left.end());
  EXPECT_EQ(std::find(left.begin(), left.end(), vocabulary->end_token()), left.end());
  EXPECT_TRUE(trial.accept(call));
  EXPECT_EQ(trial.progress(), CRIA_CALL_CLOSED);
}

TEST(CallGrammarApi, SpacesOfSentencePieceAreSpaces) {
  test::MadeVocabulary made(format::TokenizerKind::kSentencePieceBpe);
  const uint32_t piece = made.add("\":\xe2\x96\x81\"get");
  GrammarTrial trial(made.model(), test::call_form_of("qwen2.5-7b-instruct"), kTools, required());
  ASSERT_EQ(trial.status(), CRIA_OK);
  ASSERT_EQ(trial.begin("<tool_call>\n{\"name"), CRIA_OK);
  const std::vector<uint32_t> left = trial.allowed();
  EXPECT_EQ(left, (std::vector<uint32_t>{'"', piece}));
  ASSERT_TRUE(trial.accept(piece));
  EXPECT_EQ(trial.forced(), "_");
}

}  // namespace
}  // namespace cria::calls
