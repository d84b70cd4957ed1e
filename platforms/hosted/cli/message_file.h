// Conversations that come as files of messages in JSON, and as tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cria.h>
#include "platforms/hosted/chat/conversation.h"
#include "platforms/hosted/session/model_session.h"
#include "platforms/hosted/session/session_options.h"

namespace cria::hosted {

inline constexpr size_t kMaxInputMessages = 1 << 16;

// A list of messages (platforms/hosted/chat/conversation_json.h), or an object that has it as
// "messages", and maybe "tools" and "chat_template_kwargs": what OpenAI's API takes. Throws
// ProgramError kInvalidInput, one line that begins with where.
Conversation parse_conversation(const std::string& json, const std::string& where);

// A list of tools, in place of those that are there. Throws the same.
void parse_tools(const std::string& json, const std::string& where, Conversation* conversation);

// An object of the template's variables. Throws the same.
void parse_template_args(const std::string& json, const std::string& where,
                         Conversation* conversation);

// The tokens of a conversation; ending as in cria.h, date as in set_chat_date. Calls and results
// get what the template asks for. The weights stay unread. Throws ProgramError; what the template
// refuses is kInvalidInput.
std::vector<uint32_t> encode_conversation(const CommonOptions& options, const std::string& date,
                                          Conversation conversation, cria_chat_ending ending);

// The same with an open model, whose workspace takes texts of that size: what opens the assistant's
// turn is its end, and opened the template's text after the last message.
std::vector<uint32_t> encode_question(const ModelSession& model, Conversation* conversation,
                                      std::string* opened);

}  // namespace cria::hosted
