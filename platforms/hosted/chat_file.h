// A saved conversation: its messages, and the session's state, so that it goes on without reading
// it all again. The layout is in docs/command_line.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/conversation.h"
#include "platforms/hosted/model_session.h"

namespace cria::hosted {

struct ChatRecord {
  bool context_is_stale = false;  // the context is not what the messages make
  std::vector<Conversation::Message> messages;
  std::string text;               // of all messages, one after the other
  std::vector<uint32_t> fed;      // tokens of the context
  std::vector<uint32_t> pending;  // tokens that come next
  std::vector<uint8_t> state;     // of cria_state_save
};

// What a file may hold at most, so that a wrong one is refused before it is read.
struct ChatLimits {
  uint64_t state_bytes;
  uint32_t vocab_size;  // every token is below
  uint32_t context;     // tokens of the context, and those that come next
};
ChatLimits chat_limits(const ModelSession& model);

// Throw ProgramError. What is read is a regular file; links to one are followed.
void write_chat_file(const std::string& path, const ChatRecord& record);
ChatRecord read_chat_file(const std::string& path, const ChatLimits& limits);

// The bytes of such a file. parse_chat_file trusts nothing; path is for its messages.
std::string format_chat_file(const ChatRecord& record);
ChatRecord parse_chat_file(std::string_view bytes, const ChatLimits& limits,
                           const std::string& path);

}  // namespace cria::hosted
