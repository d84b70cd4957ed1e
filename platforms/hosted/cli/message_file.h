// Conversations that come as files of messages in JSON.
#pragma once

#include <string>
#include <vector>

#include <cria.h>
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

struct InputMessage {
  cria_role role;
  std::string content;
};

inline constexpr size_t kMaxInputMessages = 1 << 16;

// A list of {"role": "system", "user" or "assistant", "content": a text or a list of
// {"type": "text", "text": ...}}, as OpenAI's API takes it, or an object that has it as "messages".
// Throws ProgramError kInvalidInput, one line that begins with where.
std::vector<InputMessage> parse_messages(const std::string& json, const std::string& where);

// Most bytes of the text of a conversation, the template's with it.
uint64_t conversation_bytes(const cria_model_info& info, const std::vector<InputMessage>& messages);

// The tokens of a conversation; ending as in cria.h. Throws ProgramError; what the template refuses
// is kInvalidInput.
std::vector<uint32_t> encode_messages(const ModelSession& model,
                                      const std::vector<InputMessage>& messages,
                                      cria_chat_ending ending);

}  // namespace cria::hosted
