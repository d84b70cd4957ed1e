// Shows what the converter's regexes and the runtime's normalization make of texts, for tests that
// know it from elsewhere (tests/cli/text_probe_test.py).
//
//   text_probe words REGEX...   the ends of the words in bytes, "2 5 9", after stages of these
//                               regexes
//   text_probe nfc              the normalized text
//
// Texts are read from stdin, each ended by a zero byte; so is what becomes of each. Exit code 3 and
// a line for a regex that is not supported.
#include <cstdio>
#include <iostream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "converter/error.h"
#include "converter/pre_tokenizer_tables.h"
#include "quant/text/nfc.h"
#include "runtime/text/pre_tokenizer.h"

namespace {

using cria::PrefixedText;
using cria::PreTokenizerTables;
using cria::StageCutter;
using cria::converter::SplitRule;

std::vector<std::string> read_texts() {
  const std::string all(std::istreambuf_iterator<char>(std::cin), {});
  std::vector<std::string> texts;
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = all.find('\0', begin);
    texts.push_back(all.substr(begin, end - begin));
    begin = end + 1;
  }
  return texts;
}

std::string ends_of_words(const PreTokenizerTables& tables, const std::string& text) {
  const PrefixedText view = {text.data(), text.size(), false};
  StageCutter cutter(tables, view);
  std::string ends;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = cutter.word_end(begin);
    if (end <= begin) return "given up";
    ends += (ends.empty() ? "" : " ") + std::to_string(end);
    begin = end;
  }
  return ends;
}

std::string normalized(std::string_view text) {
  if (cria::is_surely_nfc(text)) return std::string(text);
  std::string out(text.size() * cria::kMaxNfcGrowth, '\0');
  size_t n_written = 0;
  for (size_t n_read = 0; n_read < text.size();) {
    const cria::NfcSegment segment =
        cria::normalize_segment(text.substr(n_read), std::span(out).subspan(n_written));
    n_read += segment.n_read;
    n_written += segment.n_written;
  }
  return out.substr(0, n_written);
}

int show_words(std::span<char*> regexes) {
  std::vector<SplitRule> rules;
  for (const char* regex : regexes) rules.push_back({regex});
  const std::vector<uint8_t> bytes = build_pre_tokenizer_tables(rules, "text_probe");
  PreTokenizerTables tables;
  if (const char* wrong = cria::check_pre_tokenizer(bytes, &tables)) {
    std::cerr << wrong << '\n';
    return 1;
  }
  for (const std::string& text : read_texts()) std::cout << ends_of_words(tables, text) << '\0';
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::span arguments(argv, static_cast<size_t>(argc));
  const std::string_view command = argc > 1 ? arguments[1] : "";
  if (command == "words" && argc > 2) return show_words(arguments.subspan(2));
  if (command != "nfc") return 2;
  for (const std::string& text : read_texts()) std::cout << normalized(text) << '\0';
  return 0;
} catch (const cria::converter::ProgramError& error) {
  std::cerr << error.what() << '\n';
  return 3;
}
