// The chat functions of cria.h for conversations of plain messages.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cria.h>

namespace cria::test {

inline cria_conversation conversation_of(const cria_message* messages, size_t n_messages,
                                         int ending) {
  cria_conversation conversation = {};
  conversation.messages = messages;
  conversation.n_messages = n_messages;
  conversation.ending = static_cast<cria_chat_ending>(ending);
  return conversation;
}

inline cria_status encode_chat(cria_workspace* workspace, const cria_message* messages,
                               size_t n_messages, size_t first, int ending, uint32_t* tokens,
                               size_t capacity, size_t* n_tokens) {
  const cria_conversation conversation = conversation_of(messages, n_messages, ending);
  return cria_encode_chat(workspace, &conversation, first, tokens, capacity, n_tokens);
}

inline cria_status chat_text(cria_workspace* workspace, const cria_message* messages,
                             size_t n_messages, int ending, char* text, size_t capacity,
                             size_t* n_bytes) {
  const cria_conversation conversation = conversation_of(messages, n_messages, ending);
  return cria_chat_text(workspace, &conversation, text, capacity, n_bytes);
}

}  // namespace cria::test
