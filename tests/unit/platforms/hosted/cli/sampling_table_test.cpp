// What the command line and a chat can set is one table.
#include "platforms/hosted/cli/sampling_table.h"

#include <gtest/gtest.h>

#include <string>

#include "platforms/hosted/base/program_error.h"

namespace cria::hosted {
namespace {

std::string problem(const std::string& name, const std::string& value) {
  SamplingOptions options;
  try {
    change_setting(name, value, &options);
  } catch (const ProgramError& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return {};
}

// The message of the command line without what is in front of it and after.
std::string command_line_problem(const std::string& name, const std::string& value) {
  CLI::App app;
  SamplingOptions options;
  add_sampling(&app, &options, "");
  try {
    app.parse("--" + name + "=" + value, false);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return {};
}

TEST(SamplingTable, SetsEachSetting) {
  SamplingOptions options;
  change_setting("temperature", "0.25", &options);
  change_setting("top-p", "0.5", &options);
  change_setting("top-k", "7", &options);
  change_setting("min-p", "0.125", &options);
  change_setting("repeat-penalty", "1.5", &options);
  change_setting("frequency-penalty", "-0.5", &options);
  change_setting("presence-penalty", "0.75", &options);
  change_setting("seed", "18446744073709551615", &options);
  change_setting("max-tokens", "9", &options);
  EXPECT_EQ(options.temperature, 0.25f);
  EXPECT_EQ(options.top_p, 0.5f);
  EXPECT_EQ(options.top_k, 7u);
  EXPECT_EQ(options.min_p, 0.125f);
  EXPECT_EQ(options.repeat_penalty, 1.5f);
  EXPECT_EQ(options.frequency_penalty, -0.5f);
  EXPECT_EQ(options.presence_penalty, 0.75f);
  EXPECT_EQ(options.seed, UINT64_MAX);
  EXPECT_EQ(options.max_tokens, 9u);
  change_setting("seed", "random", &options);
  change_setting("max-tokens", "none", &options);
  EXPECT_FALSE(options.seed);
  EXPECT_FALSE(options.max_tokens);
}

TEST(SamplingTable, WhatRandomDrawsLookAtEndsGreedyOnes) {
  SamplingOptions options;
  change_setting("greedy", "on", &options);
  EXPECT_TRUE(options.greedy);
  change_setting("repeat-penalty", "1.5", &options);
  EXPECT_TRUE(options.greedy);
  change_setting("top-k", "7", &options);
  EXPECT_FALSE(options.greedy);
}

TEST(SamplingTable, TellsWhatTheCommandLineTells) {
  struct {
    const char* name;
    const char* value;
  } const cases[] = {{"temperature", "101"},
                     {"temperature", "nan"},
                     {"top-p", "-1"},
                     {"top-k", "1.5"},
                     {"min-p", "x"},
                     {"repeat-penalty", "-0.5"},
                     {"frequency-penalty", "11"},
                     {"seed", "-1"},
                     {"max-tokens", "010"}};
  for (const auto& each : cases) {
    const std::string told = problem(each.name, each.value);
    EXPECT_EQ("--" + told, command_line_problem(each.name, each.value));
    EXPECT_NE(told.find("is not a number from"), std::string::npos) << told;
  }
  EXPECT_EQ(problem("temperature", ""),
            "temperature needs a value: /set temperature X, from 0 to 100");
  EXPECT_EQ(problem("max-tokens", ""),
            "max-tokens needs a value: /set max-tokens N, from 0 to 2147483647, or none");
  EXPECT_EQ(problem("greedy", ""), "greedy needs a value: /set greedy on, or off");
  EXPECT_NE(problem("greedy", "yes"), "");
  EXPECT_EQ(problem("heat", "1"), "heat is not a setting; /set lists them");
}

TEST(SamplingTable, ListsAllInFortyColumns) {
  SamplingOptions options;
  options.seed = UINT64_MAX;
  const std::string text = settings_text(options);
  size_t column = 0;
  for (const char c : text) {
    column = c == '\n' ? 0 : column + 1;
    EXPECT_LE(column, 40u) << text;
  }
  for (const char* line : {"greedy             off\n", "temperature        0.8\n",
                           "top-k              40\n", "max-tokens         none\n"}) {
    EXPECT_NE(text.find(line), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace cria::hosted
