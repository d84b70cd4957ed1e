// What a mask of calls costs over the 128 k tokens of Llama 3's tokenizer: docs/tools.md has the
// figures.
#include <benchmark/benchmark.h>

#include <optional>
#include <string>
#include <vector>

#include <cria_call_grammar.h>
#include "tests/bench/bench_vocabulary.h"
#include "tests/support/call_trial.h"

namespace cria::bench {
namespace {

constexpr const char* kTools = R"([
  {"name": "get_weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "day": {"type": "string", "pattern": "^[A-Za-z ]+$"},
    "n": {"type": "integer"}}, "required": ["city"]}},
  {"name": "get_time", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}}])";

struct Place {
  const char* name;
  const char* form;
  cria_tool_choice choice;
  const char* begun;
};

constexpr const char* kTagged = "<tool_call>\n<function=get_weather>\n<parameter=city>\n";
const std::string kPattern = std::string(kTagged) + "a\n</parameter>\n<parameter=day>\nab";
const Place kPlaces[] = {
    {"text", "qwen3-0.6b", CRIA_TOOLS_AUTO, "Hello"},
    {"text_in_marker", "qwen3-0.6b", CRIA_TOOLS_AUTO, "Hello <"},
    {"text_begins_bare", "llama-3.1-8b-instruct", CRIA_TOOLS_AUTO, ""},
    {"thinking", "qwen3-0.6b", CRIA_TOOLS_REQUIRED, "<think>Hm"},
    {"call_begins", "qwen3-0.6b", CRIA_TOOLS_REQUIRED, ""},
    {"name", "qwen3-0.6b", CRIA_TOOLS_REQUIRED, "<tool_call>\n{\"name\": \""},
    {"string", "qwen3-0.6b", CRIA_TOOLS_REQUIRED,
     "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"ab"},
    {"string_in_tags", "qwen3-coder-30b", CRIA_TOOLS_REQUIRED, kTagged},
    {"pattern_in_tags", "qwen3-coder-30b", CRIA_TOOLS_REQUIRED, kPattern.c_str()},
    {"string_in_marks", "functiongemma-270m", CRIA_TOOLS_REQUIRED,
     "<start_function_call>call:get_weather{city:<escape>ab"},
    {"arguments_in_python", "lfm2", CRIA_TOOLS_REQUIRED, "<|tool_call_start|>[get_weather("},
};

struct Grammar {
  std::vector<uint8_t> form;
  std::optional<test::AlignedMemory> vocabulary_memory;
  std::optional<test::AlignedMemory> memory;
  cria_json_vocabulary* vocabulary = nullptr;
  cria_call_order order = {};

  explicit Grammar(const Place& place) : form(test::call_form_of(place.form)) {
    size_t n_bytes = 0;
    test::need(cria_json_vocabulary_required(model(), &n_bytes));
    vocabulary_memory.emplace(n_bytes);
    test::need(cria_json_make_vocabulary(vocabulary_memory->data(), n_bytes, model(), &vocabulary));
    order.format = form.data();
    order.n_format = form.size();
    order.tools = kTools;
    order.n_tools = std::string_view(kTools).size();
    order.choice = place.choice;
    order.thinks = 1;
    test::need(cria_call_grammar_required(vocabulary, &order, &n_bytes, nullptr));
    memory.emplace(n_bytes);
  }
  cria_call_grammar* make() {
    cria_call_grammar* grammar = nullptr;
    test::need(cria_call_grammar_make(memory->data(), memory->size(), vocabulary, &order, &grammar,
                                      nullptr));
    return grammar;
  }
};

void begin(cria_call_grammar* grammar, const Place& place, cria_call_state* state) {
  test::need(cria_call_grammar_begin(grammar, "", 0, state));
  for (const char* c = place.begun; *c != 0; ++c) {
    const uint32_t token = tokens_of_bytes()[static_cast<uint8_t>(*c)];
    test::need(cria_call_grammar_accept(grammar, state, token));
  }
}

// Of a grammar that has made no mask, or that has made this one.
void mask(benchmark::State& state, const Place& place, bool kept) {
  Grammar made(place);
  cria_call_grammar* grammar = made.make();
  cria_call_state answer;
  begin(grammar, place, &answer);
  std::vector<float> logits(cria_vocab_size(model()));
  for (auto _ : state) {
    if (!kept) {
      state.PauseTiming();
      grammar = made.make();
      state.ResumeTiming();
    }
    test::need(cria_call_grammar_mask(grammar, &answer, logits.data(), logits.size()));
  }
  state.counters["grammar_bytes"] = static_cast<double>(made.memory->size());
}

void make_grammar(benchmark::State& state) {
  Grammar made(kPlaces[0]);
  for (auto _ : state) benchmark::DoNotOptimize(made.make());
}

const bool kRegistered = [] {
  register_masks(kPlaces, mask);
  benchmark::RegisterBenchmark("make_grammar", make_grammar)->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace cria::bench

BENCHMARK_MAIN();
