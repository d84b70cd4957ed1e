// Hostile bytes of tokenizer.model, of SentencePiece or of tiktoken: read, turned into tables, and
// used.
#include <string>

#include "converter/joined_tokens.h"
#include "converter/sentencepiece_model.h"
#include "converter/tiktoken_model.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/noted_models.h"
#include "tests/fuzz/reader_trial.h"
#include "tests/fuzz/time_limit.h"
#include "tests/fuzz/tokenizer_promises.h"

namespace cria::fuzz {
namespace {

std::vector<uint8_t> section_of(const uint8_t* data, size_t size) {
  std::vector<uint8_t> section;
  refuses_or([&] {
    const TimeLimit limit(size);
    if (converter::is_tiktoken_file({data, size})) {
      const std::string_view text = {reinterpret_cast<const char*>(data), size};
      section = converter::build_tokenizer_section(
          converter::tokenizer_from_ranks(converter::parse_tiktoken_file(text, "input"), "input"));
      return;
    }
    const auto source = converter::parse_sentencepiece_model({data, size}, "input");
    converter::TokenizerModel model = converter::tokenizer_from_sentencepiece(source, "input");
    static_cast<void>(converter::drop_repeated_added(&model));
    section = converter::build_tokenizer_section(model);
  });
  return section;
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  const std::vector<uint8_t> section = section_of(data, size);
  if (section.empty()) return 0;
  Tokenizer tokenizer = {};
  expect(tokenizer_open(section, format::kMaxVocab, &tokenizer) == Status::kOk,
         "the runtime takes every tokenizer that the converter makes");
  note_sections(section, {});
  constexpr std::string_view kText = " a b  ab\xE2\x96\x81 abc\n\xF0\x9F\xA6\x99\xFF<s></s>";
  expect_safe_text(tokenizer, {}, kText);
  expect_safe_token_texts(tokenizer, {}, kText);
  return 0;
}

}  // namespace cria::fuzz
