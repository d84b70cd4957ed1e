#include "platforms/hosted/cli/command_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/bench/bench_run.h"
#include "platforms/hosted/cli/generation.h"
#include "platforms/hosted/cli/line_editor.h"

namespace cria::hosted {
namespace {

std::variant<Command, HelpText> parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "cria");
  return parse_command_line(static_cast<int>(arguments.size()), arguments.data());
}

template <typename Options>
Options parse_as(const std::vector<const char*>& arguments) {
  return std::get<Options>(std::get<Command>(parse(arguments)));
}

// The message of a usage error; empty when there is none.
std::string usage_error(const std::vector<const char*>& arguments) {
  try {
    parse(arguments);
    return {};
  } catch (const ProgramError& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
}

// Zero switches the filter off in the API, whose zero-initialised struct is to do no harm.
TEST(Sampling, ATopPOfZeroKeepsTheLikeliestAlone) {
  SamplingOptions options;
  EXPECT_EQ(sampling_of(options).top_k, options.top_k);
  options.top_p = 0.0f;
  EXPECT_EQ(sampling_of(options).top_k, 1u);
  options.top_k = 0;
  EXPECT_EQ(sampling_of(options).top_k, 1u);
  options.greedy = true;
  EXPECT_EQ(sampling_of(options).temperature, 0.0f);
}

TEST(CommandLine, ReadsEveryCommonOption) {
  const auto options = parse_as<InfoOptions>(
      {"info", "m.cria", "--threads", "3", "--context", "77", "--backend", "exact", "--isa",
       "scalar", "--kv", "k8v4", "--prefill-chunk", "5", "--no-mmap", "--verbose", "--json"});
  EXPECT_EQ(options.common.model_path, "m.cria");
  EXPECT_EQ(options.common.n_threads, 3u);
  EXPECT_EQ(options.common.context, 77u);
  EXPECT_EQ(options.common.backend, CRIA_BACKEND_EXACT);
  EXPECT_EQ(options.common.isa_mask, 1u);
  EXPECT_EQ(options.common.kv_format, CRIA_KV_K8V4);
  EXPECT_EQ(options.common.prefill_chunk, 5u);
  EXPECT_EQ(options.common.mapping, Mapping::kNever);
  EXPECT_TRUE(options.common.verbose);
  EXPECT_TRUE(options.json);
}

TEST(CommandLine, ReadsRun) {
  const auto options =
      parse_as<RunOptions>({"run", "m.cria", "-p", "-", "-n", "32", "--temperature", "0.5",
                            "--top-p", "0.9", "--top-k", "7", "--min-p", "0", "--repeat-penalty",
                            "1.1", "--seed", "18446744073709551615", "--no-echo"});
  EXPECT_EQ(options.prompt, "-");
  EXPECT_EQ(options.sampling.max_tokens, 32u);
  EXPECT_EQ(options.sampling.temperature, 0.5f);
  EXPECT_EQ(options.sampling.top_p, 0.9f);
  EXPECT_EQ(options.sampling.top_k, 7u);
  EXPECT_EQ(options.sampling.min_p, 0.0f);
  EXPECT_EQ(options.sampling.repeat_penalty, 1.1f);
  EXPECT_EQ(options.sampling.seed, UINT64_MAX);
  EXPECT_FALSE(options.echo);
  EXPECT_FALSE(options.sampling.greedy);
  EXPECT_TRUE(parse_as<RunOptions>({"run", "m.cria", "-p", "a"}).echo);
}

TEST(CommandLine, APromptMayBeEmptyOrStartWithADash) {
  EXPECT_EQ(parse_as<RunOptions>({"run", "m.cria", "-p", ""}).prompt, "");
  EXPECT_EQ(parse_as<RunOptions>({"run", "m.cria", "--prompt=-x"}).prompt, "-x");
  EXPECT_EQ(parse_as<RunOptions>({"run", "m.cria", "-p", "two words"}).prompt, "two words");
}

TEST(CommandLine, TextsToEmbedComeFromAFileOrAnOption) {
  const auto piped = parse_as<EmbedOptions>({"embed", "m.cria"});
  EXPECT_EQ(piped.input, "-");
  EXPECT_FALSE(piped.text || piped.whole);
  EXPECT_EQ(piped.dimensions, 0u);
  const auto file =
      parse_as<EmbedOptions>({"embed", "m.cria", "lines.txt", "--whole", "--dimensions", "32"});
  EXPECT_EQ(file.input, "lines.txt");
  EXPECT_TRUE(file.whole);
  EXPECT_EQ(file.dimensions, 32u);
  EXPECT_EQ(parse_as<EmbedOptions>({"embed", "m.cria", "--text", ""}).text, "");
}

TEST(CommandLine, ListsEndBeforeTheNextArgument) {
  const auto logits = parse_as<LogitsOptions>({"logits", "--ids", "1,5,9", "m.cria", "-o", "f"});
  EXPECT_EQ(logits.ids, (std::vector<uint32_t>{1, 5, 9}));
  EXPECT_EQ(logits.common.model_path, "m.cria");
  const auto bench = parse_as<BenchOptions>(
      {"bench", "-p", "128,512", "--threads", "1,2", "m.cria", "-n", "64", "-r", "3"});
  EXPECT_EQ(bench.prompts, (std::vector<uint32_t>{128, 512}));
  EXPECT_EQ(bench.threads, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(bench.repetitions, 3u);
  EXPECT_TRUE(bench.depths.empty());
  EXPECT_EQ(parse_as<BenchOptions>({"bench", "--depth", "0,2048", "m.cria"}).depths,
            (std::vector<uint32_t>{0, 2048}));
}

TEST(CommandLine, SessionsAreOneUnlessTold) {
  EXPECT_EQ(parse_as<InfoOptions>({"info", "m.cria"}).n_sessions, 1u);
  EXPECT_EQ(parse_as<InfoOptions>({"info", "m.cria", "--sessions", "1024"}).n_sessions, 1024u);
  EXPECT_TRUE(parse_as<BenchOptions>({"bench", "m.cria"}).sessions.empty());
  EXPECT_EQ(parse_as<BenchOptions>({"bench", "--sessions", "1,8", "m.cria"}).sessions,
            (std::vector<uint32_t>{1, 8}));
}

TEST(CommandLine, TokenizeReadsStandardInputUnlessTold) {
  EXPECT_EQ(parse_as<TokenizeOptions>({"tokenize", "m.cria"}).input, "-");
  EXPECT_EQ(parse_as<TokenizeOptions>({"tokenize", "m.cria", "-"}).input, "-");
  EXPECT_TRUE(parse_as<TokenizeOptions>({"tokenize", "m.cria", "--special"}).add_special);
}

TEST(CommandLine, RefusesWhatIsOutOfRangeInOneLine) {
  const std::vector<std::vector<const char*>> wrong = {
      {},
      {"jump"},
      {"run"},
      {"run", "m.cria"},
      {"run", "m.cria", "-p"},
      {"run", "m.cria", "-p", "a", "--ids", "1"},
      {"run", "m.cria", "-p", "a", "--threads", "0"},
      {"run", "m.cria", "-p", "a", "--threads", "257"},
      {"run", "m.cria", "-p", "a", "--threads", "-1"},
      {"run", "m.cria", "-p", "a", "--threads", "2x"},
      {"run", "m.cria", "-p", "a", "--context", "0"},
      {"run", "m.cria", "-p", "a", "--context", "99999999999999999999"},
      {"run", "m.cria", "-p", "a", "--temperature", "-0.1"},
      {"run", "m.cria", "-p", "a", "--temperature", "nan"},
      {"run", "m.cria", "-p", "a", "--temperature", "inf"},
      {"run", "m.cria", "-p", "a", "--top-p", "1.5"},
      {"run", "m.cria", "-p", "a", "--top-p", "half"},
      {"run", "m.cria", "-p", "a", "--min-p", "2"},
      {"run", "m.cria", "-p", "a", "--repeat-penalty", "11"},
      {"run", "m.cria", "-p", "a", "--seed", "-3"},
      {"run", "m.cria", "-p", "a", "--seed", "18446744073709551616"},
      {"run", "m.cria", "-p", "a", "--greedy", "--top-k", "3"},
      {"run", "m.cria", "-p", "a", "--backend", "gpu"},
      {"run", "m.cria", "-p", "a", "--isa", "avx9"},
      {"run", "m.cria", "-p", "a", "--kv", "int4"},
      {"run", "m.cria", "-p", "a", "--nonsense"},
      {"run", "m.cria", "-p", "a", "surplus"},
      {"run", "m.cria", "-p", "a", "-n", "-5"},
      {"run", "m.cria", "--ids", "1,x"},
      {"run", "m.cria", "--ids", "4294967296"},
      {"run", "m.cria", "--ids", "010"},
      {"logits", "m.cria", "-o", "f"},
      {"logits", "m.cria", "--ids", "1"},
      {"embed", "m.cria", "a", "--text", "b"},
      {"embed", "m.cria", "--text", "b", "--whole"},
      {"embed", "m.cria", "--dimensions", "0"},
      {"embed", "m.cria", "--dimensions", "131073"},
      {"bench", "m.cria", "-p", "0"},
      {"bench", "m.cria", "--threads", "1,0"},
      {"bench", "m.cria", "--sessions", "1,0"},
      {"bench", "m.cria", "--sessions", "1025"},
      {"info", "m.cria", "--sessions", "0"},
      {"info", "m.cria", "--sessions", "1025"},
      {"eval", "m.cria"},
      {"eval", "m.cria", "--text", "a", "--ids", "b"},
      {"verify"},
  };
  for (const std::vector<const char*>& arguments : wrong) {
    std::string shown;
    for (const char* argument : arguments) shown += std::string(argument) + " ";
    const std::string message = usage_error(arguments);
    EXPECT_FALSE(message.empty()) << shown;
    EXPECT_EQ(message.find('\n'), std::string::npos) << shown << message;
  }
}

TEST(CommandLine, HelpAndVersionAreTextForStandardOutput) {
  EXPECT_EQ(std::get<HelpText>(parse({"--version"})).text,
            std::string("cria ") + cria_version() + "\nline editing: " + line_editor_name() + "\n");
  EXPECT_NE(std::get<HelpText>(parse({"--help"})).text.find("chat"), std::string::npos);
  for (const char* const command :
       {"info", "verify", "run", "chat", "bench", "tokenize", "logits", "embed", "eval"}) {
    const std::string text = std::get<HelpText>(parse({command, "--help"})).text;
    EXPECT_NE(text.find("M.cria"), std::string::npos) << command;
  }
}

TEST(SpreadOf, IsMedianLeastAndMost) {
  const Spread odd = spread_of({3.0, 1.0, 2.0});
  EXPECT_EQ(odd.median, 2.0);
  EXPECT_EQ(odd.least, 1.0);
  EXPECT_EQ(odd.most, 3.0);
  EXPECT_EQ(spread_of({4.0, 1.0, 2.0, 3.0}).median, 2.5);
  EXPECT_EQ(spread_of({5.0}).median, 5.0);
}

TEST(CommandLine, ReadsWhatAChatShowsAndKeeps) {
  const auto usual = parse_as<ChatOptions>({"chat", "m.cria"});
  EXPECT_EQ(usual.thinking.shown, Thinking::kDim);
  EXPECT_TRUE(usual.history);
  const auto options = parse_as<ChatOptions>(
      {"chat", "m.cria", "--thinking", "hide", "--no-history", "--frequency-penalty", "-0.5"});
  EXPECT_EQ(options.thinking.shown, Thinking::kHide);
  EXPECT_EQ(options.thinking.wanted, CRIA_THINKING_DEFAULT);
  EXPECT_FALSE(options.history);
  EXPECT_EQ(options.sampling.frequency_penalty, -0.5f);
  EXPECT_EQ(parse_as<RunOptions>({"run", "m.cria", "-p", "a", "--prompt-cache", "c"}).prompt_cache,
            "c");
}

}  // namespace
}  // namespace cria::hosted
