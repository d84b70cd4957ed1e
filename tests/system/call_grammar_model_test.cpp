// The grammar of calls with a model's own tokenizer: forced text as tokens.
#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include <cria_call_grammar.h>
#include "tests/support/call_trial.h"
#include "tests/support/grammar_trial.h"
#include "tests/support/model_files.h"
#include "tests/support/seeds.h"
#include "tests/support/test_session.h"

namespace cria {
namespace {

using nlohmann::json;
using test::GrammarTrial;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "get_weather", "strict": true, "parameters": {
    "type": "object", "additionalProperties": false, "properties": {
      "location": {"type": "string", "enum": ["Berlin, Germany", "Berlin, New Hampshire"]},
      "unit": {"type": "string", "enum": ["celsius"]}}, "required": ["location", "unit"]}}}])";

class CallGrammarModel : public testing::Test {
 protected:
  static test::TestSession* open() {
    static const test::Bytes bytes = test::convert_folder(
        test::demo_folder(), {format::NumberFormat::kInt4, 32, format::Compression::kZstd, true});
    static const test::MemorySource source(bytes);
    static cria_config config = [] {
      cria_config c = {};
      c.text_only = 1;
      return c;
    }();
    static test::TestSession session(source, config);
    return &session;
  }
};

// As long as something is forced its tokens are taken at once; else one is drawn.
std::string answer_with_forced(test::TestSession* session, GrammarTrial* trial,
                               std::mt19937* random, size_t* n_forced) {
  while (trial->text().size() < 2000) {
    const std::string forced = trial->forced();
    uint32_t tokens[64];
    size_t n = 0;
    test::need(cria_call_grammar_forced_tokens(trial->get(), &trial->state(), session->workspace(),
                                               tokens, std::size(tokens), &n));
    std::string bytes;
    for (size_t i = 0; i < n; ++i) {
      bytes += trial->bytes_of(tokens[i]);
      EXPECT_TRUE(trial->accept(tokens[i])) << trial->text();
    }
    EXPECT_TRUE(forced.starts_with(bytes)) << forced << "\n" << bytes;
    *n_forced += n;
    if (trial->progress() == CRIA_CALL_CLOSED) break;
    const std::vector<uint32_t> left = trial->allowed();
    EXPECT_FALSE(left.empty()) << trial->text();
    if (left.empty()) break;
    const uint32_t token = left[(*random)() % left.size()];
    if (cria_is_end_token(session->model(), token) != 0) break;
    EXPECT_TRUE(trial->accept(token));
  }
  return trial->text();
}

TEST_F(CallGrammarModel, ForcedTokensHaveTheForcedBytes) {
  test::TestSession* const session = open();
  cria_call_order order = {};
  order.choice = CRIA_TOOLS_REQUIRED;
  order.one_call = 1;
  test::for_each_seed({1}, [&](uint32_t seed) {
    size_t n_forced = 0;
    for (const json& form : test::call_forms()) {
      SCOPED_TRACE(form.at("templates").at(0).get<std::string>());
      std::mt19937 random(seed);
      GrammarTrial trial(session->model(), test::stored_call_form(form), kTools, order);
      ASSERT_EQ(trial.status(), CRIA_OK) << trial.problem().schema.reason;
      ASSERT_EQ(trial.begin(""), CRIA_OK);
      const std::string text = answer_with_forced(session, &trial, &random, &n_forced);
      test::CallTrial reader(test::stored_call_form(form), kTools, 4096);
      reader.run("", text, text.size() + 1, CRIA_CALLS_STOPPED, nullptr);
      const json calls = reader.answer().at("calls");
      ASSERT_EQ(calls.size(), 1U) << text;
      EXPECT_EQ(calls.at(0).at("name"), "get_weather");
      EXPECT_EQ(calls.at(0).at("arguments").at("unit"), "celsius");
    }
    std::printf("%zu forced tokens\n", n_forced);
    EXPECT_GT(n_forced, 300U);
  });
}

TEST_F(CallGrammarModel, FewTokensAreABeginning) {
  test::TestSession* const session = open();
  cria_call_order order = {};
  order.choice = CRIA_TOOLS_REQUIRED;
  GrammarTrial trial(session->model(), test::call_form_of("gpt-oss"), kTools, order);
  ASSERT_EQ(trial.begin("<|channel|>commentary to=functions."), CRIA_OK);
  uint32_t all[64];
  size_t n_all = 0;
  test::need(cria_call_grammar_forced_tokens(trial.get(), &trial.state(), session->workspace(), all,
                                             std::size(all), &n_all));
  ASSERT_GT(n_all, 2U);
  for (size_t capacity = 0; capacity < n_all; ++capacity) {
    uint32_t some[64] = {};
    size_t n = 0;
    test::need(cria_call_grammar_forced_tokens(trial.get(), &trial.state(), session->workspace(),
                                               some, capacity, &n));
    EXPECT_LE(n, capacity);
    cria_call_state behind = trial.state();
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(cria_call_grammar_accept(trial.get(), &behind, some[i]), CRIA_OK);
    }
  }
}

}  // namespace
}  // namespace cria
