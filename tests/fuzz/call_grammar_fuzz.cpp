// An answer under a grammar of calls: a form of tests/data/call_forms.json or a hostile one, tools,
// and choices among what the masks leave.
//
// Input: which form (a byte; 255: its length and it), the choice and its options (a byte), the
// length of what the prompt opened and it, the number of choices (a byte) and they, a byte that is
// changed of each state (two bytes; 0: none), the tools' text.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/fuzz/byte_feed.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/time_limit.h"
#include "tests/support/call_trial.h"
#include "tests/support/grammar_trial.h"
#include "tests/support/json_trial.h"

namespace cria::fuzz {
namespace {

using test::GrammarTrial;

constexpr uint8_t kHostile = 255;
constexpr size_t kMostTokens = 64;

const std::string kName = "f";

cria_call_order order_of(uint8_t byte) {
  cria_call_order order = {};
  order.choice = static_cast<cria_tool_choice>(byte & 3);
  order.one_call = byte >> 2 & 1;
  order.thinks = byte >> 3 & 1;
  order.name = kName.data();
  order.n_name = order.choice == CRIA_TOOLS_NAMED ? kName.size() : 0;
  return order;
}

// States that somebody changed are refused or lead somewhere.
void try_changed(const GrammarTrial& trial, cria_call_grammar* grammar, size_t at, uint8_t value) {
  cria_call_state changed = trial.state();
  if (at % sizeof changed == 0) return;
  reinterpret_cast<uint8_t*>(changed.bytes)[at % sizeof changed] ^= value;
  char text[32];
  size_t n = 0;
  static_cast<void>(cria_call_grammar_forced(grammar, &changed, text, sizeof text, &n));
  static_cast<void>(cria_call_grammar_progress_of(grammar, &changed));
  static_cast<void>(cria_call_grammar_accept(grammar, &changed, value));
}

// False where the answer ended. A hostile form may lead to where nothing can come.
bool step(GrammarTrial* trial, ByteFeed* choices, bool is_hostile) {
  const std::string forced = trial->forced();
  const std::vector<uint32_t> left = trial->allowed();
  expect(is_hostile || !left.empty(), "there is always a token that can come");
  if (left.empty()) return false;
  const uint32_t token = left[choices->number(2) % left.size()];
  if (trial->is_end(token)) return false;
  const std::string bytes = trial->bytes_of(token);
  const size_t n = std::min(bytes.size(), forced.size());
  expect(bytes.substr(0, n) == forced.substr(0, n), "what is forced comes");
  expect(trial->accept(token), "what can come is taken");
  return true;
}

// Calls that are whole are tools'.
void expect_calls(const std::vector<uint8_t>& form, const std::string& tools,
                  const std::string& opened, const std::string& text) {
  std::set<std::string> names;
  const auto parsed = test::parse_strictly(tools);
  if (parsed.is_discarded()) return;
  for (const auto& tool : parsed) {
    const auto& function = tool.contains("function") ? tool.at("function") : tool;
    names.insert(function.at("name").get<std::string>());
  }
  test::CallTrial reader(form, tools, 4096);
  reader.run(opened, text, text.size() + 1, CRIA_CALLS_CUT, nullptr);
  for (const test::ToldEvent& event : reader.told()) {
    expect(event.kind != CRIA_CALLS_BEGIN || names.count(event.text) != 0, "a call is a tool's");
    expect(event.kind != CRIA_CALLS_BROKEN, "no call breaks");
  }
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  ByteFeed feed(data, size);
  const uint8_t chosen = feed.byte();
  const bool is_hostile = chosen == kHostile;
  const auto& forms = test::call_forms();
  const auto& known = forms.at(chosen % forms.size());
  std::vector<uint8_t> form = test::stored_call_form(known);
  if (is_hostile) {
    const auto bytes = feed.take(feed.number(2));
    form.assign(bytes.begin(), bytes.end());
  }
  const cria_call_order order = order_of(feed.byte());
  const std::string opened(feed.take_text(feed.byte()));
  const std::span<const uint8_t> chosen_tokens = feed.take(feed.byte());
  const size_t changed_at = feed.number(2);
  const std::string tools(feed.take_text(feed.rest().size()));
  const auto vocabulary = test::vocabulary_for(known, test::Markers::kSpecial);
  const auto made = [&] {
    const TimeLimit limit(size);
    return std::make_unique<GrammarTrial>(vocabulary->model(), form, tools, order);
  }();
  GrammarTrial& trial = *made;
  if (trial.status() != CRIA_OK) {
    const bool is_null = form.empty() && trial.status() == CRIA_INVALID_ARGUMENT;
    expect(is_null || trial.status() == CRIA_CORRUPT || trial.problem().schema.reason != nullptr ||
               trial.status() == CRIA_TEXT_TOO_LONG,
           "a refusal has a reason");
    expect(trial.problem().schema.offset <= tools.size(), "a refusal has a place");
    return 0;
  }
  if (trial.begin(opened) != CRIA_OK) return 0;
  ByteFeed choices(chosen_tokens.data(), chosen_tokens.size());
  for (size_t i = 0; i < kMostTokens && !choices.is_empty(); ++i) {
    if (!step(&trial, &choices, is_hostile)) break;
    try_changed(trial, trial.get(), changed_at, static_cast<uint8_t>(i + 1));
  }
  if (!is_hostile && order.choice >= CRIA_TOOLS_REQUIRED && !tools.empty()) {
    expect_calls(form, tools, opened, trial.text());
  }
  return 0;
}

}  // namespace cria::fuzz
