// A model's answer, under a form of tests/data/call_forms.json or a hostile one, with tools or
// hostile ones.
//
// Input: which form (a byte; 255: its length and it), what is held (a byte), tools (a byte; 2: the
// length and the text), the length of what the prompt opened and it, a seed of pieces, the answer.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "tests/fuzz/byte_feed.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/time_limit.h"
#include "tests/support/call_trial.h"

namespace cria::fuzz {
namespace {

using test::CallTrial;
using test::ToldEvent;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
    "t": {"type": "string"}, "n": {"type": "integer"}, "o": {"type": ["string", "null"]},
    "u": {"anyOf": [{"type": "number"}, {"type": "null"}]}, "e": {"enum": ["a", "b"]}}}}},
  {"name": "get_time", "parameters": {}}])";
constexpr size_t kHolds[] = {CRIA_CALLS_LEAST_HOLD, 600, 4096};

// Every byte of the part stands in the whole, in order.
bool is_part(std::string_view part, std::string_view whole) {
  for (const char c : part) {
    const size_t at = whole.find(c);
    if (at == whole.npos) return false;
    whole.remove_prefix(at + 1);
  }
  return true;
}

// The library has no numbers past a double's: of an exponent a digit stays.
std::string with_small_numbers(const std::string& text) {
  std::string small;
  bool is_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    small += text[i];
    if (is_string && text[i] == '\\') {
      small += text[++i];
    } else if (text[i] == '"') {
      is_string = !is_string;
    } else if (!is_string && std::isdigit(static_cast<unsigned char>(text[i])) != 0) {
      while (i + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[i + 1])) != 0) ++i;
    }
  }
  return small;
}

void expect_told(const CallTrial& trial, std::string_view answer) {
  std::string text[2];
  std::string arguments;
  bool is_open = false;
  uint32_t n_calls = 0;
  for (const ToldEvent& event : trial.told()) {
    switch (event.kind) {
      case CRIA_CALLS_TEXT:
      case CRIA_CALLS_THINKING:
        expect(!is_open, "a call is told at once");
        text[event.kind] += event.text;
        break;
      case CRIA_CALLS_BEGIN:
        expect(!is_open && event.call == n_calls, "calls are told in their order");
        expect(!event.text.empty(), "a call has a name");
        is_open = true;
        arguments.clear();
        break;
      case CRIA_CALLS_ARGUMENTS:
        expect(is_open, "arguments are a call's");
        arguments = event.text;
        break;
      case CRIA_CALLS_END: {
        expect(is_open, "what ends has begun");
        const auto parsed = nlohmann::json::parse(with_small_numbers(arguments), nullptr, false);
        expect(parsed.is_object(), "arguments are a JSON object");
        is_open = false;
        ++n_calls;
        break;
      }
      case CRIA_CALLS_BROKEN:
        expect(is_open, "what breaks has begun");
        is_open = false;
        ++n_calls;
        break;
    }
  }
  expect(!is_open || trial.ending() == CRIA_CALLS_CUT, "a call is left open where it is cut");
  for (const std::string& kind : text) {
    expect(is_part(kind, answer), "text is the answer's");
  }
}

void try_answer(CallTrial* trial, std::string_view opened, std::string_view answer,
                cria_calls_ending ended, std::mt19937* random) {
  trial->run(opened, answer, answer.size() + 1, ended, nullptr);
  const auto whole = trial->told();
  const cria_calls_ending ending = trial->ending();
  expect_told(*trial, answer);
  for (const size_t n_bytes : {1, 0}) {
    trial->run(opened, answer, n_bytes, ended, random);
    expect(trial->told() == whole && trial->ending() == ending, "pieces of any size tell the same");
  }
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  constexpr uint8_t kHostile = 255;
  ByteFeed feed(data, size);
  const uint8_t chosen = feed.byte();
  const size_t hold_bytes = kHolds[feed.below(3)];
  const uint32_t of_tools = feed.below(3);
  std::vector<uint8_t> form;
  if (chosen == kHostile) {
    const auto bytes = feed.take(feed.number(2));
    form.assign(bytes.begin(), bytes.end());
  } else {
    const auto& forms = test::call_forms();
    form = test::stored_call_form(forms.at(chosen % forms.size()));
  }
  std::string tools = of_tools == 0 ? "" : kTools;
  if (of_tools == 2) tools = feed.take_text(feed.number(2));
  size_t n_bytes = 0;
  const TimeLimit limit(size);
  if (cria_calls_required(form.data(), form.size(), tools.data(), tools.size(), hold_bytes,
                          &n_bytes) != CRIA_OK) {
    return 0;
  }
  if (!tools.empty()) {
    const auto parsed = nlohmann::json::parse(tools, nullptr, false);
    expect(!parsed.is_discarded(), "tools that are taken are JSON");
    if (!parsed.is_array()) return 0;
  }
  CallTrial trial(form, tools, hold_bytes);
  const std::string opened(feed.take_text(feed.byte()));
  std::mt19937 random(feed.byte());
  const std::string answer(feed.take_text(feed.rest().size()));
  try_answer(&trial, opened, answer, CRIA_CALLS_STOPPED, &random);
  try_answer(&trial, opened, answer, CRIA_CALLS_CUT, &random);
  return 0;
}

}  // namespace cria::fuzz
