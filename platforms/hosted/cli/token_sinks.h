// From tokens to standard output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <cria.h>
#include "platforms/hosted/cli/generation.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// Whether decoded text goes on from text before it; otherwise a leading space that belongs to the
// tokenizer alone is dropped.
enum class Continues { kNo, kYes };

// Turns a stream of tokens into text. Allocates nothing; a result is valid until the next call.
class TokenDecoder {
 public:
  TokenDecoder(const ModelSession& model, Continues continues);
  // shows_special: a special token's text too.
  std::string_view decode(uint32_t token, bool shows_special = false);
  // What waited for the rest of a character.
  std::string_view finish();

 private:
  static constexpr size_t kTextBytes = 3 * 4096 + 64;  // longer than any token the format allows

  const ModelSession& model_;
  cria_text_state state_ = {};
  char text_[kTextBytes];
};

// Decodes tokens and writes the text at once. Allocates nothing.
class TextSink : public TokenSink {
 public:
  TextSink(const ModelSession& model, TextStream* out, Continues continues);
  Demand put(uint32_t token) override;
  // Writes what waited for the rest of a character.
  void finish();

 private:
  TokenDecoder decoder_;
  TextStream* out_;
};

// Writes ids separated by spaces.
class IdSink : public TokenSink {
 public:
  explicit IdSink(TextStream* out) : out_(out) {}
  Demand put(uint32_t token) override;

 private:
  TextStream* out_;
  bool first_ = true;
};

}  // namespace cria::hosted
