#include "platforms/cortex_m/dialogue.h"

#include <algorithm>
#include <cstring>

#include "platforms/cortex_m/console.h"

namespace cria::cortex_m {
namespace {

constexpr size_t kExchange = 2;  // a question and its answer

}  // namespace

void Dialogue::start(const cria_instance& cria) {
  cria_ = cria;
  clear();
}

void Dialogue::clear() {
  n_messages_ = 0;
  n_text_ = 0;
}

size_t Dialogue::context() const {
  return std::min<size_t>(cria_context(cria_.session), kMostTokens);
}

void Dialogue::add(cria_role role, std::string_view text) {
  messages_[n_messages_++] = {role, text_.data() + n_text_, 0};
  append_to_last(text);
}

void Dialogue::append_to_last(std::string_view text) {
  const size_t n = std::min(text.size(), text_.size() - n_text_);
  if (n > 0) std::memcpy(text_.data() + n_text_, text.data(), n);
  messages_[n_messages_ - 1].n_bytes += n;
  n_text_ += n;
}

void Dialogue::forget_exchange() {
  size_t n_bytes = 0;
  for (size_t i = 0; i < kExchange; ++i) n_bytes += messages_[i].n_bytes;
  std::copy(text_.begin() + static_cast<ptrdiff_t>(n_bytes),
            text_.begin() + static_cast<ptrdiff_t>(n_text_), text_.begin());
  n_text_ -= n_bytes;
  std::copy(messages_.begin() + kExchange, messages_.begin() + static_cast<ptrdiff_t>(n_messages_),
            messages_.begin());
  n_messages_ -= kExchange;
  for (size_t i = 0; i < n_messages_; ++i) messages_[i].text -= n_bytes;
}

// For a question and an answer of half the text memory.
void Dialogue::make_room() {
  while (n_messages_ >= kExchange &&
         (n_messages_ + kExchange > kMostMessages || n_text_ > kMostTextBytes / 2)) {
    forget_exchange();
  }
}

cria_status Dialogue::feed(std::span<const uint32_t> tokens) {
  const cria_status status =
      cria_prefill(cria_.workspace, cria_.session, tokens.data(), tokens.size());
  if (status != CRIA_OK) return status;
  std::copy(tokens.begin(), tokens.end(), fed_.begin() + static_cast<ptrdiff_t>(n_fed_));
  n_fed_ += tokens.size();
  return CRIA_OK;
}

// Encodes all messages and feeds what the KV cache lacks of them; a quarter of the context stays
// free for the answer as long as there is an exchange to forget.
cria_status Dialogue::feed_messages() {
  for (;;) {
    size_t n = 0;
    const cria_status status = cria_encode_chat(cria_.workspace, messages_.data(), n_messages_, 0,
                                                1, wanted_.data(), context(), &n);
    const bool is_full = status == CRIA_BUFFER_TOO_SMALL || status == CRIA_TEXT_TOO_LONG ||
                         (status == CRIA_OK && n > context() - context() / 4);
    if (is_full && n_messages_ > kExchange) {
      forget_exchange();
      continue;
    }
    if (status != CRIA_OK) return status;
    // The newest logits belong to the last token, so that one is always fed.
    size_t same = 0;
    while (same < n_fed_ && same + 1 < n && fed_[same] == wanted_[same]) ++same;
    n_fed_ = same;
    const cria_status cut = cria_reset(cria_.session, static_cast<uint32_t>(same));
    return cut != CRIA_OK ? cut : feed({wanted_.data() + same, n - same});
  }
}

void Dialogue::say(uint32_t token, cria_text_state* state) {
  static std::array<char, CRIA_TEXT_BYTES> piece;
  size_t n = 0;
  if (cria_decode_token(cria_.model, state, token, piece.data(), piece.size(), &n) != CRIA_OK)
    return;
  std::string_view text(piece.data(), n);
  // The text of an answer starts at its first word.
  while (messages_[n_messages_ - 1].n_bytes == 0 && !text.empty() &&
         (text[0] == ' ' || text[0] == '\n')) {
    text.remove_prefix(1);
  }
  print(text);
  append_to_last(text);
}

cria_status Dialogue::speak(const cria_sampling& sampling) {
  cria_text_state state = {};
  for (n_answered_ = 0;; ++n_answered_) {
    uint32_t token = 0;
    const cria_status status = cria_sample(cria_.workspace, cria_.session, &sampling, &token);
    if (status != CRIA_OK) return status;
    if (cria_is_end_token(cria_.model, token) != 0 || n_fed_ == context()) break;
    say(token, &state);
    const cria_status fed = feed({&token, 1});
    if (fed != CRIA_OK) return fed;
  }
  say(CRIA_NO_TOKEN, &state);
  return CRIA_OK;
}

// Whether the newest message, with the template's text around it, is nothing that could be fed.
bool Dialogue::newest_has_no_tokens() {
  size_t n = 0;
  const cria_status status = cria_encode_chat(cria_.workspace, messages_.data(), n_messages_,
                                              n_messages_ - 1, 1, wanted_.data(), context(), &n);
  return status == CRIA_OK && n == 0;
}

cria_status Dialogue::answer(std::string_view question, const cria_sampling& sampling) {
  make_room();
  add(CRIA_USER, question);
  n_answered_ = 0;
  const bool is_unreadable = newest_has_no_tokens();
  const cria_status status = is_unreadable ? CRIA_OK : feed_messages();
  if (is_unreadable || status != CRIA_OK) {
    n_text_ -= messages_[--n_messages_].n_bytes;
    if (is_unreadable) print("(no token stands for this)");
    return status;
  }
  add(CRIA_ASSISTANT, {});
  return speak(sampling);
}

}  // namespace cria::cortex_m
