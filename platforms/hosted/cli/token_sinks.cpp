#include "platforms/hosted/cli/token_sinks.h"

#include <charconv>

namespace cria::hosted {

TokenDecoder::TokenDecoder(const ModelSession& model, Continues continues) : model_(model) {
  state_.started = continues == Continues::kYes ? 1 : 0;
}

std::string_view TokenDecoder::decode(uint32_t token, bool shows_special) {
  state_.show_special = shows_special ? 1 : 0;
  size_t n_bytes = 0;
  model_.check(cria_decode_token(model_.model(), &state_, token, text_, sizeof(text_), &n_bytes));
  return {text_, n_bytes};
}

std::string_view TokenDecoder::finish() { return decode(CRIA_NO_TOKEN); }

TextSink::TextSink(const ModelSession& model, TextStream* out, Continues continues)
    : decoder_(model, continues), out_(out) {}

TokenSink::Demand TextSink::put(uint32_t token) {
  out_->put(decoder_.decode(token));
  out_->flush();
  return out_->closed() ? Demand::kEnough : Demand::kMore;
}

void TextSink::finish() {
  out_->put(decoder_.finish());
  out_->flush();
}

TokenSink::Demand IdSink::put(uint32_t token) {
  char text[16];
  char* begin = text;
  if (!first_) *begin++ = ' ';
  first_ = false;
  const std::to_chars_result end = std::to_chars(begin, text + sizeof(text), token);
  out_->put({text, static_cast<size_t>(end.ptr - text)});
  out_->flush();
  return out_->closed() ? Demand::kEnough : Demand::kMore;
}

}  // namespace cria::hosted
