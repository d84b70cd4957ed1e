// A hostile schema, and a document under it by choices of the input.
//
// Input: the choices' number (a byte) and the choices, the schema.
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/fuzz/byte_feed.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/time_limit.h"
#include "tests/support/json_trial.h"

namespace cria::fuzz {
namespace {

// Quotes before brackets, which are characters like others inside a string.
constexpr std::string_view kEndings = "\"]}";

// Bytes that can come: chosen by the input while it has choices, then those that end something.
std::string write_document(test::JsonTrial* trial, ByteFeed* choices) {
  constexpr size_t kMostBytes = 512;
  std::string text;
  trial->begin();
  for (;;) {
    const bool hurries = choices->is_empty();
    if (trial->may_end() && (hurries || choices->below(8) == 0)) return text;
    std::string allowed;
    for (int c = 0; c < 256; ++c) {
      if (trial->can_step(static_cast<char>(c))) allowed += static_cast<char>(c);
    }
    expect(!allowed.empty() || trial->may_end(), "there is always a byte that can come");
    if (allowed.empty()) return text;
    char chosen = allowed[hurries ? 0 : choices->below(static_cast<uint32_t>(allowed.size()))];
    if (hurries) {
      const size_t at = kEndings.find_first_of(allowed);
      if (at != std::string_view::npos) chosen = kEndings[at];
    }
    expect(trial->step(chosen), "what can come is taken");
    text += chosen;
    // Schemas may ask for more than anybody waits for.
    if (text.size() == kMostBytes) return {};
  }
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  ByteFeed feed(data, size);
  const size_t n_choices = feed.byte();
  const std::span<const uint8_t> chosen = feed.take(n_choices);
  const std::string schema(feed.take_text(feed.rest().size()));
  const auto compiled = [&] {
    const TimeLimit limit(size);
    return std::make_unique<test::JsonTrial>(schema);
  }();
  test::JsonTrial& trial = *compiled;
  if (trial.status() != Status::kOk) {
    expect(trial.refusal().reason != nullptr, "a refusal has a reason");
    expect(trial.refusal().offset <= schema.size(), "a refusal has a place");
    return 0;
  }
  const nlohmann::json parsed = nlohmann::json::parse(schema, nullptr, false);
  expect(!parsed.is_discarded(), "a schema that is taken is JSON");
  ByteFeed choices(chosen.data(), chosen.size());
  const std::string document = write_document(&trial, &choices);
  if (document.empty()) return 0;
  expect(!test::parse_strictly(document).is_discarded(), "a document is JSON");
  return 0;
}

}  // namespace cria::fuzz
