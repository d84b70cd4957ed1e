// Rules made of forms: how much room they take, and forms that have too much.
#include "runtime/calls/grammar_rules.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/call_trial.h"
#include "tests/support/seeds.h"

namespace cria::calls {
namespace {

using format::CallString;

constexpr GrammarDemands kDemands[] = {{true, false, false, false},
                                       {false, false, false, false},
                                       {true, true, false, true},
                                       {true, true, true, false}};

TEST(GrammarRules, KnownFormsTakeAPartOfTheRoom) {
  uint32_t most[3] = {};
  for (const auto& form : test::call_forms()) {
    const auto stored = test::stored_call_form(form);
    CallFormat call_format = {};
    ASSERT_EQ(check_call_format(stored, &call_format), nullptr);
    for (const GrammarDemands& demands : kDemands) {
      json::Rules rules;
      Beginnings beginnings = {};
      EXPECT_EQ(check_grammar_form(call_format, true), nullptr);
      ASSERT_EQ(make_rules(call_format, demands, &rules, &beginnings), Status::kOk);
      most[0] = std::max<uint32_t>(most[0], rules.n_rules);
      most[1] = std::max<uint32_t>(most[1], rules.n_branches);
      most[2] = std::max(most[2], rules.n_text);
    }
  }
  std::printf("%u rules, %u texts, %u bytes\n", most[0], most[1], most[2]);
  EXPECT_LE(most[0], json::kMostRules / 2);
  EXPECT_LE(most[1], json::kMostBranches / 2);
  EXPECT_LE(most[2], json::kMostRuleText / 2);
}

// Lists as long as a form may have them, of texts as long as they may be.
TEST(GrammarRules, FormsOfAnySizeFitOrAreTooLong) {
  test::for_each_seed({1}, [](uint32_t seed) {
    std::mt19937 random(seed);
    size_t n_made = 0;
    size_t n_too_long = 0;
    for (int i = 0; i < 400; ++i) {
      nlohmann::json form = {
          {"kind", std::vector<const char*>{"json", "python", "named", "tagged"}[random() % 4]}};
      const size_t length = 1 + random() % (i % 2 == 0 ? 12 : format::kMostCallTextBytes - 1);
      const auto text = [&] {
        return "<" + std::string(length, static_cast<char>('a' + random() % 26));
      };
      for (const char* const list : {"thinking_begin", "thinking_end", "answer_begin", "answer_end",
                                     "start", "name_keys", "arguments_keys", "id_keys"}) {
        const bool is_needed =
            std::strcmp(list, "start") == 0 || std::strstr(list, "_keys") != nullptr;
        for (size_t n = (is_needed ? 1 : 0) + random() % format::kMostCallTexts; n > 0; --n) {
          form[list].push_back(text());
        }
      }
      for (const char* const one : {"call_begin", "name_begin", "id_begin", "arguments_begin",
                                    "key_begin", "key_end", "value_end", "call_end", "end"}) {
        form[one] = text();
      }
      if (form["kind"] == "json" || form["kind"] == "python") form["flags"] = {"bare"};
      const auto stored = test::stored_call_form(form);
      CallFormat call_format = {};
      ASSERT_EQ(check_call_format(stored, &call_format), nullptr);
      json::Rules rules;
      Beginnings beginnings = {};
      const Status status = make_rules(call_format, kDemands[random() % 4], &rules, &beginnings);
      ASSERT_TRUE(status == Status::kOk || status == Status::kTextTooLong);
      ++(status == Status::kOk ? n_made : n_too_long);
      ASSERT_LE(rules.n_rules, json::kMostRules);
      ASSERT_LE(rules.n_branches, json::kMostBranches);
      ASSERT_LE(rules.n_alternatives, json::kMostAlternatives);
      ASSERT_LE(rules.n_text, json::kMostRuleText);
    }
    EXPECT_GT(n_made, 100U);
    EXPECT_GT(n_too_long, 0U);
  });
}

}  // namespace
}  // namespace cria::calls
