#include "quant/text/chat_order.h"

#include <bit>
#include <cstddef>
#include <string_view>

#include "quant/text/chat_template_format.h"

namespace cria {
namespace {

constexpr const char* kReasons[format::kChatDisorders] = {
    "takes no system text after other messages",
    "takes only conversations that a user begins",
    "takes no two messages of the user in a row",
    "takes no two messages of the assistant in a row",
    "takes no calls without their results",
    "takes no results without calls",
    "takes no results in another order than their calls",
    "takes no user's message after results",
    "opens no turn after the assistant's",
    "takes no calls and results without tools",
    "opens no turn after calls",
    "takes no messages in such an order",
};

bool differ(std::span<const char> a, std::span<const char> b) {
  return !a.empty() && !b.empty() &&
         std::string_view(a.data(), a.size()) != std::string_view(b.data(), b.size());
}

std::span<const ChatCall> calls_of(const ChatMessage& message) {
  return message.parts != nullptr ? message.parts->calls : std::span<const ChatCall>();
}

// Each call is compared with those before it: 2 M times at most.
constexpr size_t kMostComparedCalls = 2048;

// Whether an id is that of calls of several functions, of which templates find one. Where there are
// too many calls to say, it is.
bool has_shared_id(const Conversation& conversation) {
  size_t n_calls = 0;
  for (const ChatMessage& message : conversation.messages) n_calls += calls_of(message).size();
  if (n_calls > kMostComparedCalls) return true;
  for (const ChatMessage& message : conversation.messages) {
    for (const ChatCall& call : calls_of(message)) {
      for (const ChatMessage& other : conversation.messages) {
        for (const ChatCall& with : calls_of(other)) {
          if (!differ(with.id, call.id) && !with.id.empty() && !call.id.empty() &&
              differ(with.name, call.name)) {
            return true;
          }
        }
        if (&other == &message) break;
      }
    }
  }
  return false;
}

// Looks at messages one after the other.
class OrderReader {
 public:
  void read(const ChatMessage& message) {
    switch (message.role) {
      case ChatRole::kSystem:
        // Without it the others may be in order.
        if (n_read_ > 0) found_ |= format::kChatLaterSystem;
        break;
      case ChatRole::kUser:
        read_question();
        break;
      case ChatRole::kAssistant:
        read_answer(message);
        break;
      case ChatRole::kTool:
        read_result(message);
        break;
    }
    ++n_read_;
  }

  [[nodiscard]] uint32_t found(bool opens_turn, bool has_tools, bool shares_ids) const {
    uint32_t found = found_ | (shares_ids ? format::kChatOtherResults : 0);
    if (!has_last_) found |= format::kChatNoFirstQuestion;
    const bool is_answer = has_last_ && last_ == ChatRole::kAssistant;
    if (n_results_ < calls_.size() && !is_answer) found |= format::kChatOpenCalls;
    if (is_answer && opens_turn) {
      found |= calls_.empty() ? format::kChatOpenedBehindAnswer : format::kChatOpenedBehindCalls;
    }
    // That tools are missing is no matter of order: beside it one other thing is one.
    if (found != 0 && !std::has_single_bit(found)) found |= format::kChatManyDisorders;
    if (has_calls_ && !has_tools) found |= format::kChatCallsWithoutTools;
    if (!has_calls_ && !has_tools) found <<= format::kChatPlain;
    return found;
  }

 private:
  void read_question() {
    if (has_last_ && last_ == ChatRole::kUser) found_ |= format::kChatTwoQuestions;
    if (has_last_ && last_ == ChatRole::kTool) found_ |= format::kChatQuestionBehindResult;
    end_calls();
    set_last(ChatRole::kUser);
  }
  void read_answer(const ChatMessage& message) {
    if (!has_last_) found_ |= format::kChatNoFirstQuestion;
    if (has_last_ && last_ == ChatRole::kAssistant && calls_.empty()) {
      found_ |= format::kChatTwoAnswers;
    }
    end_calls();
    calls_ = calls_of(message);
    has_calls_ = has_calls_ || !calls_.empty();
    set_last(ChatRole::kAssistant);
  }
  void read_result(const ChatMessage& message) {
    if (!has_last_) found_ |= format::kChatNoFirstQuestion;
    has_calls_ = true;
    if (n_results_ >= calls_.size()) {
      found_ |= format::kChatResultsWithoutCalls;
    } else if (message.parts != nullptr) {
      const ChatCall& call = calls_[n_results_];
      if (differ(message.parts->id, call.id) || differ(message.parts->name, call.name)) {
        found_ |= format::kChatOtherResults;
      }
    }
    ++n_results_;
    set_last(ChatRole::kTool);
  }

  void end_calls() {
    if (n_results_ < calls_.size()) found_ |= format::kChatOpenCalls;
    calls_ = {};
    n_results_ = 0;
  }
  void set_last(ChatRole role) {
    last_ = role;
    has_last_ = true;
  }

  uint32_t found_ = 0;
  size_t n_read_ = 0;
  bool has_last_ = false;  // of the messages that are no system's
  ChatRole last_ = ChatRole::kSystem;
  std::span<const ChatCall> calls_;  // of the answer that results follow
  size_t n_results_ = 0;
  bool has_calls_ = false;  // calls or results, anywhere
};

}  // namespace

uint32_t chat_disorder(const Conversation& conversation) {
  OrderReader reader;
  for (const ChatMessage& message : conversation.messages) reader.read(message);
  return reader.found(conversation.end == ChatEnd::kOpened, !conversation.tools.empty(),
                      has_shared_id(conversation));
}

const char* disorder_refusal(uint32_t disorder) {
  if (disorder == 0) return nullptr;
  // Bits past the last reason are those of plain conversations.
  const auto first = static_cast<uint32_t>(std::countr_zero(disorder));
  return kReasons[(first - format::kChatRefuses) % format::kChatDisorders];
}

}  // namespace cria
