// A saved conversation: its messages, and the session's state, so that it goes on without reading
// it all again. The layout is in docs/command_line.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/conversation.h"

namespace cria::hosted {

struct ChatRecord {
  bool context_is_stale = false;  // the context is not what the messages make
  std::vector<Conversation::Message> messages;
  std::string text;               // of all messages, one after the other
  std::vector<uint32_t> fed;      // tokens of the context
  std::vector<uint32_t> pending;  // tokens that come next
  std::vector<uint8_t> state;     // of cria_state_save
};

// Throw ProgramError.
void write_chat_file(const std::string& path, const ChatRecord& record);
ChatRecord read_chat_file(const std::string& path);

// The bytes of such a file. parse_chat_file trusts nothing; path is for its messages.
std::string format_chat_file(const ChatRecord& record);
ChatRecord parse_chat_file(std::string_view bytes, const std::string& path);

}  // namespace cria::hosted
