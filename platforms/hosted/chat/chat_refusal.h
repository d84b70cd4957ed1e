// Why a model's chat template does not take a conversation, and conversations made so that it does.
#pragma once

#include <optional>
#include <string>

#include <cria.h>
#include "platforms/hosted/chat/conversation.h"

namespace cria::hosted {

struct ChatRefusal {
  std::string text;  // "the chat template takes ...", "tool 2 ('add'): the chat template needs ..."
  bool is_of_tools;  // its tools are to blame, not its messages
};

// Nothing: it takes the conversation, with the assistant's turn opened or closed after it.
std::optional<ChatRefusal> chat_refusal_of(cria_workspace* workspace,
                                           const Conversation& conversation,
                                           cria_chat_ending ending);

// Gives calls and results what the template asks for: completes them (conversation_json.h), or else
// renews their ids. Where the template takes neither, says what is wrong with that, and changes
// nothing.
std::optional<ChatRefusal> complete_for(cria_workspace* workspace, Conversation* conversation,
                                        cria_chat_ending ending);

}  // namespace cria::hosted
