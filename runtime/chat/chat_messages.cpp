#include "runtime/chat/chat_messages.h"

#include <algorithm>
#include <cstring>
#include <span>

namespace cria {

bool has_system(const cria_chat& c) {
  return c.n_messages > 0 && c.memory.messages[0].role == CRIA_SYSTEM;
}

uint32_t text_before(const cria_chat& c, uint32_t index) {
  uint32_t n_bytes = 0;
  for (uint32_t i = 0; i < index; ++i) n_bytes += c.memory.messages[i].n_bytes;
  return n_bytes;
}

uint32_t n_exchanges(const cria_chat& c) {
  const std::span<const StoredMessage> messages(c.memory.messages, c.n_messages);
  return static_cast<uint32_t>(
      std::count_if(messages.begin(), messages.end(),
                    [](const StoredMessage& m) { return m.role == CRIA_USER; }));
}

uint32_t behind_exchanges(const cria_chat& c, uint32_t n) {
  uint32_t index = has_system(c) ? 1 : 0;
  if (n == 0) return index;
  for (uint32_t n_seen = 0; index < c.n_messages; ++index) {
    if (c.memory.messages[index].role == CRIA_USER && ++n_seen > n) break;
  }
  return index;
}

void erase_messages(cria_chat* c, uint32_t first, uint32_t end) {
  const uint32_t from = text_before(*c, first);
  const uint32_t to = text_before(*c, end);
  const uint32_t n_all = c->n_messages + c->n_hidden;
  std::copy(c->memory.text + to, c->memory.text + text_before(*c, n_all), c->memory.text + from);
  c->n_text -= to - from;
  std::copy(c->memory.messages + end, c->memory.messages + n_all, c->memory.messages + first);
  std::copy(c->memory.starts + end, c->memory.starts + n_all, c->memory.starts + first);
  c->n_messages -= end - first;
}

bool append_text(cria_chat* c, const char* text, size_t n_bytes) {
  if (n_bytes > c->max_text_bytes - c->n_text) return false;
  if (n_bytes > 0) std::memcpy(c->memory.text + c->n_text, text, n_bytes);
  c->n_text += static_cast<uint32_t>(n_bytes);
  c->memory.messages[c->n_messages - 1].n_bytes += static_cast<uint32_t>(n_bytes);
  return true;
}

bool add_message(cria_chat* c, uint32_t role, const char* text, size_t n_bytes) {
  const uint32_t n_all = c->n_messages + c->n_hidden;
  const uint32_t n_text = text_before(*c, n_all);
  if (n_all == c->max_messages || n_bytes > c->max_text_bytes - n_text) return false;
  StoredMessage* const message = c->memory.messages + c->n_messages++;
  std::copy_backward(message, c->memory.messages + n_all, c->memory.messages + n_all + 1);
  *message = {role, static_cast<uint32_t>(n_bytes), 0, 0};
  char* const place = c->memory.text + c->n_text;
  if (n_bytes > 0) {
    std::memmove(place + n_bytes, place, n_text - c->n_text);
    std::memcpy(place, text, n_bytes);
  }
  c->n_text += static_cast<uint32_t>(n_bytes);
  return true;
}

void hide_messages(cria_chat* c, uint32_t first) {
  c->n_text = text_before(*c, first);
  c->n_hidden = c->n_messages - first;
  c->n_messages = first;
}

void show_messages(cria_chat* c) {
  c->n_messages += c->n_hidden;
  c->n_hidden = 0;
  c->n_text = text_before(*c, c->n_messages);
}

}  // namespace cria
