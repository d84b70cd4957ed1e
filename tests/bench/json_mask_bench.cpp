// What a mask costs over the 128 k tokens of Llama 3's tokenizer, or as many made-up words where
// CRIA_SHARED has it not: docs/json.md has the figures.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include <cria_json.h>
#include "tests/bench/bench_vocabulary.h"

namespace cria::bench {
namespace {

struct Place {
  const char* name;
  const char* items;  // schema
  const char* item;   // a whole one
  const char* begun;  // what there is of the one at hand
};

// Two patterns that take almost everything, each at many places of it, and part at no token:
// nothing that is accepted takes longer.
const std::string& worst_items() {
  static const std::string items = [] {
    std::string patterns[2];
    for (int i = 0; i < 200; ++i) {
      for (int k = 0; k < 2; ++k) {
        patterns[k] +=
            std::string("[^") + static_cast<char>('a' + (i * (1 + 2 * k) + k) % 26) + "]?";
      }
    }
    return R"({"anyOf":[{"type":"string","pattern":"^)" + patterns[0] +
           R"(.{0,54}$"},{"type":"string","pattern":"^)" + patterns[1] + R"(.{0,53}$"}]})";
  }();
  return items;
}

const Place kPlaces[] = {
    {"worst", worst_items().c_str(), "\"\"", "\"-"},
    {"object_begins", R"({"type":"object","properties":{"name":{"type":"string"}}})", "{}", ""},
    {"property", R"({"type":"object","properties":{"name":{},"age":{},"city":{}}})", "{}", "{\""},
    {"string", R"({"type":"string"})", "\"\"", "\"abc"},
    {"string_max_length", R"({"type":"string","maxLength":20})", "\"\"", "\"abc"},
    {"pattern_words", R"({"type":"string","pattern":"^[A-Za-z ]+$"})", "\"a\"", "\"abc"},
    {"pattern_any", R"({"type":"string","pattern":"^.*x.*$"})", "\"x\"", "\"abc"},
    {"pattern_all_but", R"({"type":"string","pattern":"^[^<>]*$"})", "\"\"", "\"abc"},
    {"pattern_date", R"({"type":"string","pattern":"^\\d{4}-\\d\\d-\\d\\d$"})", "\"2026-11-23\"",
     "\"20"},
    {"number", R"({"type":"number","minimum":0,"maximum":100})", "1", "1"},
    {"enum", R"({"enum":["red","green","blue"]})", "\"red\"", "\""},
    {"any_value", "true", "1", ""},
    {"any_name", R"({"type":"object"})", "{}", "{\"na"},
};

// As many states as no cache of masks holds; kept: one.
void mask(benchmark::State& state, const Place& place, bool kept) {
  constexpr size_t kStates = 16;
  const std::string schema = std::string(R"({"type":"array","items":)") + place.items + "}";
  test::JsonOfModel json(model(), schema);
  if (json.status() != CRIA_OK) {
    state.SkipWithError(json.problem().reason);
    return;
  }
  std::vector<cria_json_state> states(kStates);
  std::string text = "[";
  const std::vector<uint32_t>& of_byte = tokens_of_bytes();
  for (cria_json_state& s : states) {
    test::need(cria_json_begin(json.get(), &s));
    for (const char c : text + place.begun) {
      test::need(cria_json_accept(json.get(), &s, of_byte[static_cast<uint8_t>(c)]));
    }
    text += std::string(place.item) + ",";
  }
  std::vector<float> logits(cria_vocab_size(model()));
  size_t i = 0;
  for (auto _ : state) {
    test::need(cria_json_mask(json.get(), &states[i], logits.data(), logits.size()));
    if (!kept) i = (i + 1) % kStates;
  }
  state.counters["vocabulary_bytes"] = static_cast<double>(json.vocabulary_size());
  state.counters["schema_bytes"] = static_cast<double>(json.json_bytes());
}

void make_vocabulary(benchmark::State& state) {
  size_t n_bytes = 0;
  test::need(cria_json_vocabulary_required(model(), &n_bytes));
  test::AlignedMemory memory(n_bytes);
  cria_json_vocabulary* vocabulary = nullptr;
  for (auto _ : state) {
    test::need(cria_json_make_vocabulary(memory.data(), n_bytes, model(), &vocabulary));
  }
}

const bool kRegistered = [] {
  register_masks(kPlaces, mask);
  benchmark::RegisterBenchmark("make_vocabulary", make_vocabulary)->Unit(benchmark::kMillisecond);
  return true;
}();

}  // namespace
}  // namespace cria::bench

BENCHMARK_MAIN();
