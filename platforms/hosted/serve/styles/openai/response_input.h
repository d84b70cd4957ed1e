// The items that a request for a response is made of, and its tools, as a conversation.
#pragma once

#include <string>
#include <string_view>

#include "platforms/hosted/chat/conversation.h"
#include "platforms/hosted/serve/json_fields.h"

namespace cria::hosted {

// A text, or a list of messages, calls, their outputs and reasoning. Calls join the answer that
// they follow, and reasoning the answer that follows it. Throws ApiError, naming the item.
void read_input(const Json& input, Conversation* conversation);

// Functions; raw is the list's text. Throws ConversationError.
void read_response_tools(const Json& list, std::string_view raw, Conversation* conversation);

}  // namespace cria::hosted
