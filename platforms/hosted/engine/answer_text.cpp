#include "platforms/hosted/engine/answer_text.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "platforms/hosted/session/model_tokens.h"

namespace cria::hosted {

AnswerText::AnswerText(const cria_model* model, const AnswerRequest& request)
    : model_(model),
      shows_special_(request.shows_special),
      markers_(request.markers),
      decoded_(token_text_capacity(model)),
      finder_(request.stops.get()) {
  state_.started = request.begins_text ? 0 : 1;
}

cria_status AnswerText::decode(uint32_t token, std::string_view* text) {
  size_t n_bytes = 0;
  const bool is_marker =
      markers_ != nullptr && std::binary_search(markers_->begin(), markers_->end(), token);
  state_.show_special = shows_special_ || is_marker ? 1 : 0;
  const cria_status status =
      cria_decode_token(model_, &state_, token, decoded_.data(), decoded_.size(), &n_bytes);
  *text = {decoded_.data(), n_bytes};
  return status == CRIA_NO_TOKENIZER ? CRIA_OK : status;
}

cria_status AnswerText::put(DrawnToken token) {
  std::string_view text;
  const cria_status status = decode(token.token, &text);
  finder_.feed(text);
  held_ += text;
  // The rest of a character is at least one byte more.
  const size_t end = n_told_ + held_.size() + (state_.n_pending != 0 ? 1 : 0);
  waiting_.push_back({std::move(token), end});
  if (stop() != nullptr) held_.resize(finder_.n_clear() - n_told_);
  return status;
}

void AnswerText::end(bool is_cut) {
  is_over_ = true;
  if (stop() != nullptr || (is_cut && markers_ != nullptr)) return;
  // Half a character, which no stop string has. A failure would be one of the token before it.
  std::string_view text;
  if (decode(CRIA_NO_TOKEN, &text) == CRIA_OK) held_ += text;
}

bool AnswerText::take(AnswerPiece* piece) {
  const bool tells_all = is_over_ || stop() != nullptr;
  const size_t n_bytes = tells_all ? held_.size() : finder_.n_clear() - n_told_;
  piece->text.assign(held_, 0, n_bytes);
  held_.erase(0, n_bytes);
  n_told_ += n_bytes;
  piece->tokens.clear();
  // Tokens that show nothing wait for the next text, or for the end.
  if (n_bytes == 0 && !tells_all) return false;
  while (!waiting_.empty() && (tells_all || waiting_.front().end <= n_told_)) {
    piece->tokens.push_back(std::move(waiting_.front().token));
    waiting_.pop_front();
  }
  return n_bytes != 0 || !piece->tokens.empty();
}

}  // namespace cria::hosted
