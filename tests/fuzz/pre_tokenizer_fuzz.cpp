// Hostile regexes become tables and cut a text; hostile tables of a file cut it.
//
// Input: "r", regexes, a zero byte between two, another zero byte, the text; or "t", the text of at
// most 255 bytes with its length before it, tables.
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "converter/pre_tokenizer_tables.h"
#include "quant/text/pre_tokenizer_check.h"
#include "runtime/text/pre_tokenizer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/reader_trial.h"
#include "tests/fuzz/time_limit.h"

namespace cria::fuzz {
namespace {

// Whether the text was cut to its end.
bool cut(const PreTokenizerTables& tables, std::string_view text) {
  const PrefixedText view = {text.data(), text.size(), false};
  StageCutter cutter(tables, view);
  for (size_t begin = 0; begin < view.n_bytes;) {
    const size_t end = cutter.word_end(begin);
    if (end == 0) return false;
    expect(end > begin && end <= view.n_bytes, "every word has text");
    begin = end;
  }
  return true;
}

void try_regexes(std::string_view input) {
  const size_t n_bytes = input.size();
  std::vector<converter::SplitRule> rules;
  while (!input.empty()) {
    const size_t end = std::min(input.find('\0'), input.size());
    if (end == 0) break;
    rules.push_back({input.substr(0, end)});
    input.remove_prefix(std::min(end + 1, input.size()));
  }
  if (rules.empty()) return;
  std::vector<uint8_t> bytes;
  const bool is_taken = refuses_or([&] {
    const TimeLimit limit(n_bytes);
    bytes = converter::build_pre_tokenizer_tables(rules, "input");
  });
  if (!is_taken) return;
  PreTokenizerTables tables;
  expect(check_pre_tokenizer(bytes, &tables) == nullptr,
         "the runtime takes every table that the converter makes");
  // Repeated, so that what is read again and again for nothing adds up.
  constexpr size_t kRepeats = 64;
  input.remove_prefix(input.empty() ? 0 : 1);
  std::string text;
  for (size_t i = 0; i < kRepeats; ++i) text += input;
  expect(cut(tables, input) && cut(tables, text), "the converter's tables are linear");
}

void try_tables(std::string_view input) {
  if (input.empty()) return;
  const size_t n_text = std::min<size_t>(static_cast<uint8_t>(input[0]), input.size() - 1);
  const std::string_view text = input.substr(1, n_text);
  const std::string_view raw = input.substr(1 + n_text);
  const std::vector<uint8_t> bytes(raw.begin(), raw.end());
  PreTokenizerTables tables;
  if (check_pre_tokenizer(bytes, &tables) == nullptr) static_cast<void>(cut(tables, text));
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::string_view input = {reinterpret_cast<const char*>(data), size};
  if (input.starts_with('r')) try_regexes(input.substr(1));
  if (input.starts_with('t')) try_tables(input.substr(1));
  return 0;
}

}  // namespace cria::fuzz
