// The messages of a chat: their roles and texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <cria.h>

namespace cria::hosted {

// An optional system message, then exchanges: a user message and the assistant's answer to it.
// Adding within the reserved sizes allocates nothing.
class Conversation {
 public:
  struct Message {
    cria_role role;
    size_t n_bytes;
  };

  Conversation(size_t reserved_bytes, size_t reserved_messages);

  void clear();
  void add(cria_role role, std::string_view text);
  void append_to_last(std::string_view text);
  // Removes the last message.
  void drop_last();
  // Removes the first n exchanges; the system message stays.
  void drop_oldest(size_t n_exchanges);

  size_t n_messages() const { return messages_.size(); }
  size_t n_exchanges() const;  // user messages
  const std::vector<Message>& messages() const { return messages_; }
  const std::string& text() const { return text_; }  // of all messages, one after the other

  // The messages for cria_encode_chat without the first n exchanges. Valid until the next change.
  const std::vector<cria_message>& view(size_t n_left_out);

 private:
  // Index behind the system message, if there is one.
  size_t first_exchange() const;
  // Index of the message that follows the first n exchanges.
  size_t end_of_exchanges(size_t n_exchanges) const;

  std::vector<Message> messages_;
  std::string text_;
  std::vector<cria_message> view_;
};

}  // namespace cria::hosted
