#include "tests/fuzz/tokenizer_promises.h"

#include <algorithm>
#include <string>

#include "quant/model/memory_plan.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/session_trial.h"

namespace cria::fuzz {

std::vector<uint32_t> encode_all(const Tokenizer& tokenizer, std::string_view text,
                                 const EncodeOptions& options) {
  // A symbol a byte, three bytes for an invalid one (U+FFFD), one for a prepended space.
  std::vector<uint8_t> workspace((3 * text.size() + 1) * kEncodeBytesPerSymbol);
  std::vector<uint32_t> tokens(3 * text.size() + 4);
  size_t n = 0;
  expect(tokenizer_encode(tokenizer, text, options, workspace, tokens, &n) == Status::kOk &&
             n <= tokens.size(),
         "every text can be encoded where there is room");
  tokens.resize(n);
  for (const uint32_t token : tokens) {
    expect(token < tokenizer.header.n_tokens, "an encoded token is of the tokenizer");
  }
  return tokens;
}

std::string decode_all(const Tokenizer& tokenizer, std::span<const uint32_t> tokens,
                       bool show_special) {
  DecodeState state = {};
  std::vector<char> out(tokenizer.header.longest_token * size_t{3} + 8);
  std::string text;
  for (const uint32_t token : tokens) {
    const size_t n = tokenizer_decode(tokenizer, token, show_special, &state, out);
    expect(n <= out.size(), "a token decodes to at most its bound");
    text.append(out.data(), n);
  }
  text.append(out.data(), tokenizer_decode_end(&state, out));
  return text;
}

void expect_safe_text(const Tokenizer& tokenizer, std::span<const uint32_t> end_tokens,
                      std::string_view text) {
  for (const bool continues : {false, true}) {
    const std::vector<uint32_t> tokens = encode_all(tokenizer, text, {false, false, continues});
    for (const uint32_t token : tokens) {
      // What no token has becomes the unknown token, which controls nothing.
      expect((tokenizer.token_flags[token] & format::kTokenSpecial) == 0 ||
                 token == tokenizer.header.unknown_token,
             "no text becomes a control token unless that was asked for");
      expect(std::find(end_tokens.begin(), end_tokens.end(), token) == end_tokens.end(),
             "no text becomes an end token unless that was asked for");
    }
    expect(is_utf8(decode_all(tokenizer, tokens, true)), "decoded text is UTF-8");
  }
  const std::vector<uint32_t> parsed = encode_all(tokenizer, text, {true, true, false});
  expect(is_utf8(decode_all(tokenizer, parsed, true)), "decoded text is UTF-8");
}

void expect_safe_token_texts(const Tokenizer& tokenizer, std::span<const uint32_t> end_tokens,
                             std::string_view text) {
  constexpr uint32_t kMostTokens = 64;
  uint32_t n_tried = 0;
  for (uint32_t token = 0; token < tokenizer.header.n_tokens && n_tried < kMostTokens; ++token) {
    constexpr uint8_t kWanted = format::kTokenSpecial | format::kTokenAdded;
    const bool ends = std::find(end_tokens.begin(), end_tokens.end(), token) != end_tokens.end();
    if ((tokenizer.token_flags[token] & kWanted) == 0 && !ends) continue;
    ++n_tried;
    const std::span<const char> bytes = token_text(tokenizer, token);
    const std::string own(bytes.data(), bytes.size());
    expect_safe_text(tokenizer, end_tokens, own);
    expect_safe_text(tokenizer, end_tokens, std::string(text) + " " + own + " " + own);
    expect_safe_text(tokenizer, end_tokens, own + std::string(text));
  }
}

}  // namespace cria::fuzz
