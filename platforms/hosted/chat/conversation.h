// A conversation with strings of its own: messages, with what they have besides text, and tools.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <cria.h>

namespace cria::hosted {

// A call that an answer made.
struct ConversationCall {
  std::string name;
  std::string arguments;  // JSON, an object
  std::string id;         // empty: none
};

struct ConversationMessage {
  cria_role role = CRIA_USER;
  std::string text;
  std::string thinking = {};                 // of an assistant's message
  std::vector<ConversationCall> calls = {};  // of an assistant's message
  std::string name = {};                     // of a tool's message: the function's; empty: none
  std::string id = {};                       // of a tool's message: the call's; empty: none
};

struct Conversation {
  std::vector<ConversationMessage> messages;
  std::vector<std::string> tools;  // JSON, an object each
  cria_thinking thinking = CRIA_THINKING_DEFAULT;
};

// All texts of a conversation.
template <typename Visit>
void visit_texts(const Conversation& conversation, const Visit& visit) {
  for (const ConversationMessage& m : conversation.messages) {
    for (const std::string* const text : {&m.text, &m.thinking, &m.name, &m.id}) visit(*text);
    for (const ConversationCall& call : m.calls) {
      for (const std::string* const text : {&call.name, &call.arguments, &call.id}) visit(*text);
    }
  }
  for (const std::string& tool : conversation.tools) visit(tool);
}

// Their bytes together.
[[nodiscard]] uint64_t bytes_of(const Conversation& conversation);

// Its tools as one JSON list; empty: it has none.
[[nodiscard]] std::string tools_json(const Conversation& conversation);

// A conversation, or its first messages, as the chat functions of cria.h take it. What it is made
// of outlives it and stays as it is.
class ConversationView {
 public:
  ConversationView(const Conversation& conversation, cria_chat_ending ending);
  ConversationView(const Conversation& conversation, size_t n_messages, cria_chat_ending ending);
  ConversationView(const ConversationView&) = delete;
  ConversationView& operator=(const ConversationView&) = delete;

  [[nodiscard]] const cria_conversation* get() const { return &view_; }

 private:
  std::vector<cria_message> messages_;
  std::vector<cria_message_parts> parts_;
  std::vector<cria_call> calls_;
  std::vector<cria_text> tools_;
  cria_conversation view_ = {};
};

}  // namespace cria::hosted
