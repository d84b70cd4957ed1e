// Text that is encoded and decoded again is the text: exactly, where a tokenizer is byte-level;
// with the space that it puts in front taken away again, where it is SentencePiece.
//
//   which u8 (bit 0 the tokenizer, bit 1 parses control tokens), then the text
#include <string>

#include "converter/tokenizer_import.h"
#include "tests/fuzz/base_models.h"
#include "tests/fuzz/byte_feed.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/session_trial.h"
#include "tests/fuzz/tokenizer_promises.h"
#include "tests/support/model_files.h"

namespace cria::fuzz {
namespace {

struct OpenTokenizer {
  Bytes section;
  Tokenizer tokenizer = {};
  explicit OpenTokenizer(Bytes bytes) : section(std::move(bytes)) {
    expect(tokenizer_open(section, format::kMaxVocab, &tokenizer) == Status::kOk,
           "the runtime takes every tokenizer that the converter makes");
  }
};

const Tokenizer& demo() {
  static const OpenTokenizer open(
      converter::import_tokenizer(test::demo_folder(), format::kMaxVocab).tokenizer_section);
  return open.tokenizer;
}

const Tokenizer& spaced() {
  static const OpenTokenizer open(spaced_tokenizer_section());
  return open.tokenizer;
}

// What SentencePiece keeps of a text: U+2581 and a space are one and the same to it.
std::string with_plain_spaces(std::string_view text) {
  constexpr std::string_view kMark = "\xE2\x96\x81";
  std::string result;
  for (size_t i = 0; i < text.size();) {
    const bool is_mark = text.substr(i).starts_with(kMark);
    result += is_mark ? ' ' : text[i];
    i += is_mark ? kMark.size() : 1;
  }
  return result;
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  constexpr uint8_t kSpaced = 1 << 0;
  constexpr uint8_t kParses = 1 << 1;
  ByteFeed feed(data, size);
  const uint8_t which = feed.byte();
  const std::string_view text(reinterpret_cast<const char*>(feed.rest().data()),
                              feed.rest().size());
  const bool is_spaced = (which & kSpaced) != 0;
  const Tokenizer& tokenizer = is_spaced ? spaced() : demo();
  expect_safe_text(tokenizer, {}, text);
  const std::vector<uint32_t> tokens =
      encode_all(tokenizer, text, {false, (which & kParses) != 0, false});
  const std::string decoded = decode_all(tokenizer, tokens, true);
  expect(is_utf8(decoded), "decoded text is UTF-8");
  if (!is_utf8(text)) return 0;
  if (is_spaced) {
    const bool has_controls = (which & kParses) != 0;
    expect(has_controls || with_plain_spaces(decoded) == with_plain_spaces(text),
           "SentencePiece text comes back, its spaces plain");
  } else {
    expect(decoded == text, "byte-level text comes back");
  }
  return 0;
}

}  // namespace cria::fuzz
