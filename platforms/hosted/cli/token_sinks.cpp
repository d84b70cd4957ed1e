#include "platforms/hosted/cli/token_sinks.h"

#include <charconv>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/session/program_error.h"

namespace cria::hosted {
std::vector<uint32_t> encode_text(const ModelSession& model, const std::string& text,
                                  uint32_t flags) {
  // BOS, EOS and a space in front come on top of a token for each byte.
  constexpr size_t kExtra = 16;
  // Of U+2581 and U+FFFD, where a vocabulary has no token for what a space or an invalid byte is.
  constexpr size_t kTokensOfAByte = 3;
  std::vector<uint32_t> tokens(text.size() + kExtra);
  size_t n_tokens = 0;
  const auto encode = [&] {
    return cria_encode(model.workspace(), text.data(), text.size(), flags, tokens.data(),
                       tokens.size(), &n_tokens);
  };
  cria_status status = encode();
  if (status == CRIA_BUFFER_TOO_SMALL) {
    tokens.resize(kTokensOfAByte * text.size() + kExtra);
    status = encode();
  }
  model.check(status);
  tokens.resize(n_tokens);
  return tokens;
}

void check_ids(const ModelSession& model, const std::vector<uint32_t>& ids) {
  for (const uint32_t id : ids) {
    if (id < model.info().vocab_size) continue;
    throw ProgramError(ExitCode::kUsage,
                       text_of("%s: token id %u is not below %u, the size of the "
                               "vocabulary",
                               model.path().c_str(), id, model.info().vocab_size));
  }
}

std::string token_text(const ModelSession& model, uint32_t token) {
  constexpr size_t kMostBytes = 3 * 4096 + 64;
  std::string text(kMostBytes, '\0');
  cria_text_state state = {};
  state.show_special = 1;
  state.started = 1;
  size_t n_bytes = 0;
  model.check(cria_decode_token(model.model(), &state, token, text.data(), text.size(), &n_bytes));
  text.resize(n_bytes);
  return text;
}

TokenDecoder::TokenDecoder(const ModelSession& model, Continues continues) : model_(model) {
  state_.started = continues == Continues::kYes ? 1 : 0;
}

std::string_view TokenDecoder::decode(uint32_t token) {
  size_t n_bytes = 0;
  model_.check(cria_decode_token(model_.model(), &state_, token, text_, sizeof(text_), &n_bytes));
  return {text_, n_bytes};
}

std::string_view TokenDecoder::finish() { return decode(CRIA_NO_TOKEN); }

TextSink::TextSink(const ModelSession& model, TextStream* out, Continues continues)
    : decoder_(model, continues), out_(out) {}

TokenSink::Wish TextSink::put(uint32_t token) {
  out_->put(decoder_.decode(token));
  out_->flush();
  return out_->closed() ? Wish::kEnough : Wish::kMore;
}

void TextSink::finish() {
  out_->put(decoder_.finish());
  out_->flush();
}

TokenSink::Wish IdSink::put(uint32_t token) {
  char text[16];
  char* begin = text;
  if (!first_) *begin++ = ' ';
  first_ = false;
  const std::to_chars_result end = std::to_chars(begin, text + sizeof(text), token);
  out_->put({text, static_cast<size_t>(end.ptr - text)});
  out_->flush();
  return out_->closed() ? Wish::kEnough : Wish::kMore;
}

}  // namespace cria::hosted
