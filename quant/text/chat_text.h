// The text of a conversation, as a stored chat template makes it: what the runtime encodes and what
// the converter compares with the template it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/text/tokenizer_view.h"

namespace cria {

enum class ChatRole : uint32_t { kSystem = 0, kUser = 1, kAssistant = 2, kTool = 3 };
inline constexpr uint32_t kChatRoles = 4;
// As templates call them, by role.
inline constexpr const char* kChatRoleNames[] = {"system", "user", "assistant", "tool"};

struct ChatCall {
  std::span<const char> name;
  std::span<const char> arguments;  // JSON, an object
  std::span<const char> id;         // empty: none
};

// What only some messages have.
struct ChatParts {
  std::span<const char> thinking;   // of an answer
  std::span<const ChatCall> calls;  // of an answer
  std::span<const char> name;       // of a result: the tool's; empty: none
  std::span<const char> id;         // of a result: the call's; empty: none
};

struct ChatMessage {
  ChatRole role;
  std::span<const char> content;
  const ChatParts* parts = nullptr;  // null: all empty
};

// How the text of a conversation ends.
enum class ChatEnd : uint32_t {
  kClosed = 0,  // with its last message
  kOpened = 1,  // with what opens the assistant's turn
  kGoesOn = 2,  // other messages follow, which are not known yet, a user's among them
};

enum class ChatThinking : uint32_t { kAsIs = 0, kOn = 1, kOff = 2 };

struct Conversation {
  std::span<const ChatMessage> messages;
  ChatEnd end;
  std::span<const char> date = {};                    // empty: the template's own
  std::span<const std::span<const char>> tools = {};  // JSON, an object each
  ChatThinking thinking = ChatThinking::kAsIs;
};

// Why the template cannot be applied to a conversation: static text that reads on from "the chat
// template "; null where it can. With ChatEnd::kGoesOn what only a last message decides is not
// looked at. Cost: every joint is looked for among all rules, contents are read once for each text
// that they may not have.
[[nodiscard]] const char* chat_refusal(const ChatTemplate& chat, const Conversation& conversation);

// Where the text goes. The template's is trusted: special tokens are recognised in it.
class ChatSink {
 public:
  virtual void put(std::span<const char> text, bool is_content) = 0;

 protected:
  ~ChatSink() = default;
};

// A place in the row of units.
struct ChatPosition {
  format::ChatUnit unit;
  uint32_t message;
  uint32_t call;
};

// A joint and the unit after it, or where units are left out the last of them.
struct ChatStep {
  ChatPosition left;  // the unit before
  ChatPosition right;
  format::ChatRule rule;
  size_t rule_index;
};

// Goes from unit to unit through a conversation that is not refused.
class ChatWalk {
 public:
  // Begins before the first unit of a message that begins_at holds for.
  ChatWalk(const ChatTemplate& chat, const Conversation& conversation, size_t first_message = 0);
  // False after kOpen and kEnd, and where a conversation goes on.
  bool next(ChatStep* step);
  // The next unit, with the places (of quant/text/chat_template_format.h) of the joint before it,
  // whether there is a rule for it or not, and how it is passed.
  bool peek(ChatPosition* right, uint32_t* where) const;
  void pass(const ChatPosition& right, bool leaves_out);
  // After the last step, in a conversation that goes on: the last unit.
  [[nodiscard]] ChatPosition left() const { return left_; }
  // Why next gave false before the end; null: no joint was missing.
  [[nodiscard]] const char* refusal() const { return refusal_; }

  // Whether a walk can begin at a message: the units before it end with one that is always written.
  [[nodiscard]] static bool begins_at(const Conversation& conversation, size_t message);

 private:
  [[nodiscard]] ChatPosition first_of(size_t message) const;
  [[nodiscard]] ChatPosition behind(const ChatPosition& position) const;
  [[nodiscard]] uint32_t places_of(const ChatPosition& position) const;
  [[nodiscard]] uint32_t places(const ChatPosition& right) const;

  const ChatTemplate& chat_;
  const Conversation& conversation_;
  size_t first_question_;
  size_t last_question_;
  bool moves_system_ = false;
  bool is_over_ = false;
  bool left_out_ = false;
  ChatPosition left_ = {format::ChatUnit::kStart, 0, 0};
  ChatPosition at_ = {format::ChatUnit::kStart, 0, 0};  // the last unit, written or not
  const char* refusal_ = nullptr;
};

// Writes the unit that a step ends at, without what its joints trim.
void put_unit(const ChatTemplate& chat, const Conversation& c, const ChatPosition& position,
              uint8_t left_trims, uint8_t right_trims, ChatSink* sink);

// Writes a part of a joint, slots filled in. Tools and dates are no more trusted than contents.
void put_joint(const ChatTemplate& chat, const Conversation& c, std::span<const char> text,
               ChatSink* sink);

// Writes the whole text.
void put_chat_text(const ChatTemplate& chat, const Conversation& c, ChatSink* sink);

// Writes the last joint.
void put_last_joint(const ChatTemplate& chat, const Conversation& c, ChatSink* sink);

// Whether a rule can be that of a joint after a unit of a conversation, whatever follows; of one
// without a message, whatever follows but a first system message.
[[nodiscard]] bool may_follow(const Conversation& c, const format::ChatRule& rule,
                              format::ChatUnit left);

}  // namespace cria
