#include "runtime/chat/chat_context.h"

#include <algorithm>

#include "runtime/decode/slots.h"

namespace cria {

uint32_t n_held(const cria_chat& c, uint32_t n) {
  const uint32_t* const held = c.session->history;
  const uint32_t most = std::min(n, c.session->position);
  return static_cast<uint32_t>(std::mismatch(held, held + most, c.memory.said).first - held);
}

uint32_t behind_answer(const cria_chat& c, ChatPart part) {
  const StoredMessage& newest = c.memory.messages[part.n_messages - 1];
  if ((newest.marks & kAnswered) == 0) return part.n_tokens;
  const uint32_t n_behind = c.n_closing + ((newest.marks & kCut) != 0 ? 1 : 0);
  return std::max(newest.position, part.n_tokens - std::min(part.n_tokens, n_behind));
}

ChatPart all_said(const cria_chat& c) { return {c.n_in_context, c.n_said}; }

ChatPart part_before(const cria_chat& c, uint32_t n) {
  const StoredMessage* const messages = c.memory.messages;
  if (n < c.n_messages + c.n_hidden && (messages[n].marks & kMoved) != 0) return {0, 0};
  if (n >= c.n_in_context) return all_said(c);
  while (n > 0 && (messages[n - 1].marks & kAnswered) == 0) --n;
  return {n, n > 0 ? messages[n].position : 0};
}

void cut_context(cria_chat* c, ChatPart part) {
  if (part.n_messages == 0) return forget_context(c);
  c->n_in_context = part.n_messages;
  c->n_said = part.n_tokens;
}

void forget_context(cria_chat* c) {
  c->n_in_context = 0;
  c->n_said = 0;
  if (c->session->first_moved < c->session->position) cut(c->session, c->session->first_moved);
}

void end_session(cria_chat* c, uint32_t position) {
  if (position < c->session->position) {
    cut(c->session, last_followed(*c->session, position));
  }
}

}  // namespace cria
