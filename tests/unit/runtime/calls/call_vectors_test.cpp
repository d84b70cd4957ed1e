// The answers of the reference, which say what models write and what it means.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/support/call_trial.h"
#include "tests/support/folders.h"
#include "tests/support/seeds.h"

namespace cria::calls {
namespace {

using nlohmann::json;
using test::CallTrial;

constexpr size_t kHold = 4096;

TEST(CallVectors, EveryAnswerIsReadInPiecesOfAnySize) {
  const auto folder = test::reference_folder();
  if (!folder) GTEST_SKIP() << "no reference";
  std::ifstream tools_file(*folder / "vectors" / "tool_calls_tools.json");
  const std::string tools = json::parse(tools_file).dump();
  std::ifstream file(*folder / "vectors" / "tool_calls.jsonl");
  std::mt19937 random(test::test_seeds({20}).back());
  size_t n_read = 0;
  size_t n_policy = 0;
  size_t n_other_policy = 0;
  for (std::string line; std::getline(file, line); ++n_read) {
    const json vector = json::parse(line);
    const std::string name =
        vector.at("template").get<std::string>() + ": " + vector.at("case").get<std::string>();
    SCOPED_TRACE(name);
    const bool is_policy = vector.value("policy", false);
    const std::string opened = vector.at("opened");
    const std::string output = vector.at("output");
    const auto ended = vector.at("complete") ? CRIA_CALLS_STOPPED : CRIA_CALLS_CUT;
    CallTrial trial(test::call_form_of(vector.at("template")), tools, kHold);
    trial.run(opened, output, output.size() + 1, ended, nullptr);
    const auto whole = trial.told();
    const json got = trial.answer();
    n_policy += is_policy;
    if (!test::is_same_answer(got, vector)) {
      n_other_policy += is_policy;
      if (is_policy) std::printf("another policy: %s: %s\n", name.c_str(), got.dump().c_str());
      EXPECT_TRUE(is_policy) << output << "\n" << got.dump();
    }
    for (const size_t n_bytes : {1, 2, 3, 7, 0}) {
      trial.run(opened, output, n_bytes, ended, &random);
      EXPECT_EQ(trial.told(), whole) << n_bytes;
    }
  }
  std::printf("%zu answers, %zu where another policy is defensible, %zu read by another\n", n_read,
              n_policy, n_other_policy);
  EXPECT_EQ(n_read, 922U);
}

}  // namespace
}  // namespace cria::calls
