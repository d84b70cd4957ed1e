#include "quant/text/chat_text.h"

#include <algorithm>
#include <string_view>

#include "quant/text/chat_order.h"
#include "quant/text/json_print.h"
#include "quant/text/tool_members.h"
#include "quant/text/tool_tags.h"
#include "quant/text/unicode.h"
#include "quant/text/utf8.h"

#ifndef CRIA_WITH_TOOLS
#define CRIA_WITH_TOOLS 1
#endif

namespace cria {
namespace {

// Tools, calls and results are written; without them JSON is not printed.
constexpr bool kHasTools = CRIA_WITH_TOOLS != 0;

using format::bit_of;
using format::ChatRule;
using format::ChatString;
using format::ChatStyle;
using format::ChatTrim;
using format::ChatUnit;
using Text = std::span<const char>;

constexpr std::string_view kThinkEnd = "</think>";
constexpr size_t kNoMessage = ~size_t{0};
constexpr ChatParts kNoParts = {};

bool has_flag(const ChatTemplate& chat, uint32_t flag) { return (chat.header.flags & flag) != 0; }

std::string_view view_of(Text text) { return {text.data(), text.size()}; }
bool is_same(Text a, Text b) { return view_of(a) == view_of(b); }

const ChatParts& parts_of(const ChatMessage& message) {
  return message.parts != nullptr ? *message.parts : kNoParts;
}

bool is_trimmed(uint32_t code, ChatTrim trim) {
  return trim == ChatTrim::kSpace ? is_stripped(code) : trim == ChatTrim::kNewlines && code == '\n';
}

Text trimmed(Text text, ChatTrim left, ChatTrim right) {
  size_t begin = text.size();
  size_t end = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text.data() + i, text.size() - i);
    if (!is_trimmed(c.code, left)) begin = std::min(begin, i);
    i += c.n_bytes;
    if (!is_trimmed(c.code, right)) end = i;
  }
  return begin < end ? text.subspan(begin, end - begin) : Text();
}

// Trims as bytes of the format have them.
ChatTrim low_trim(uint8_t trims) { return static_cast<ChatTrim>(trims & 0xf); }
ChatTrim high_trim(uint8_t trims) { return static_cast<ChatTrim>(trims >> 4); }

bool is_blank(Text text) { return trimmed(text, ChatTrim::kSpace, ChatTrim::kSpace).empty(); }

// Whether text has one of the texts of list in it, which each end with a zero byte.
bool has_any(Text text, Text list) {
  while (!list.empty()) {
    const size_t n = std::min(view_of(list).find('\0'), list.size());
    if (n > 0 && view_of(text).find(view_of(list.first(n))) != std::string_view::npos) return true;
    list = list.subspan(std::min(n + 1, list.size()));
  }
  return false;
}

bool is_role(const Conversation& c, size_t index, ChatRole role) {
  return index < c.messages.size() && c.messages[index].role == role;
}

// Whether a question counts as the last one where it has the text of it.
bool twins_are_last(const ChatTemplate& chat, const Conversation& c) {
  return !c.tools.empty() && has_flag(chat, format::kChatTwinsAreLast);
}

bool has_text(const ChatMessage& message) {
  return !message.content.empty() || parts_of(message).calls.empty();
}

// An answer without the thinking before it.
Text without_thinking(const ChatTemplate& chat, Text content) {
  if (!has_flag(chat, format::kChatDropThinking)) return content;
  const size_t at = view_of(content).rfind(kThinkEnd);
  if (at == std::string_view::npos) return content;
  const Text rest = content.subspan(at + kThinkEnd.size());
  const bool drops = has_flag(chat, format::kChatDropNewlines);
  return trimmed(rest, drops ? ChatTrim::kNewlines : ChatTrim::kNothing, ChatTrim::kNothing);
}

// Slots -----------------------------------------------------------------------------------------

// Calls visit(text, slot) for the parts of a string: text before each slot, and after the last one
// with slot 0.
template <typename Visit>
void visit_slots(Text text, const Visit& visit) {
  size_t begin = 0;
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '\0') continue;
    visit(text.subspan(begin, i - begin), text[i + 1]);
    begin = i + 2;
    ++i;
  }
  visit(text.subspan(begin), '\0');
}

bool has_slot(Text text, char slot) {
  const char wanted[] = {'\0', slot};
  return view_of(text).find(std::string_view(wanted, 2)) != std::string_view::npos;
}

class ContentSink : public TextSink {
 public:
  explicit ContentSink(ChatSink* sink) : sink_(*sink) {}
  void put(Text text) override { sink_.put(text, true); }

 private:
  ChatSink& sink_;
};

const format::ChatValueStyle& style_of(const ChatTemplate& chat, ChatStyle which) {
  return chat.header.styles[static_cast<size_t>(which)];
}

constexpr format::ChatValueStyle kBareStyle = {format::ChatValueForm::kBare, 0, 0, 0};

void put_arguments(const ChatTemplate& chat, Text arguments, ChatSink* sink) {
  ContentSink content(sink);
  const Text pattern = chat_string(chat, ChatString::kArgument);
  if (pattern.empty())
    return print_json(arguments, style_of(chat, ChatStyle::kArguments), &content);
  JsonMembers members(arguments);
  Text key;
  Text value;
  for (bool is_first = true; members.next(&key, &value); is_first = false) {
    if (!is_first) sink->put(chat_string(chat, ChatString::kArgumentBetween), false);
    const ChatStyle style = value[0] == '"'   ? ChatStyle::kText
                            : value[0] == '[' ? ChatStyle::kList
                            : value[0] == '{' ? ChatStyle::kObject
                                              : ChatStyle::kOther;
    visit_slots(pattern, [&](Text text, char slot) {
      sink->put(text, false);
      if (slot == format::kChatSlotKey) print_json(key, kBareStyle, &content);
      if (slot == format::kChatSlotValue) print_json(value, style_of(chat, style), &content);
    });
  }
}

void put_number(uint32_t number, ChatSink* sink) {
  char digits[10];
  size_t at = sizeof digits;
  do {
    digits[--at] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  sink->put(Text(digits).subspan(at), true);
}

// What is written of an id.
Text written_id(const ChatTemplate& chat, Text id) {
  const size_t n = chat.header.id_characters;
  return has_flag(chat, format::kChatLongIds) && id.size() > n ? id.last(n) : id;
}

void put_call(const ChatTemplate& chat, const ChatCall& call, uint32_t number, ChatSink* sink) {
  visit_slots(chat_string(chat, ChatString::kCall), [&](Text text, char slot) {
    sink->put(text, false);
    if (slot == format::kChatSlotNumber) put_number(number, sink);
    if (slot == format::kChatSlotName) sink->put(call.name, true);
    if (slot == format::kChatSlotId) sink->put(written_id(chat, call.id), true);
    if (slot == format::kChatSlotArguments) put_arguments(chat, call.arguments, sink);
  });
}

void put_result(const ChatTemplate& chat, const ChatMessage& message, ChatSink* sink) {
  const ChatParts& parts = parts_of(message);
  const uint8_t trims = chat.header.result_trims;
  ContentSink content(sink);
  visit_slots(chat_string(chat, ChatString::kResult), [&](Text text, char slot) {
    sink->put(text, false);
    if (slot == format::kChatSlotName) sink->put(parts.name, true);
    if (slot == format::kChatSlotId) sink->put(written_id(chat, parts.id), true);
    if (slot == format::kChatSlotText) {
      print_string(trimmed(message.content, low_trim(trims), high_trim(trims)),
                   style_of(chat, ChatStyle::kResult), &content);
    }
  });
}

// Names ----------------------------------------------------------------------------------------

// Some templates write a name or an id as JSON, some as Python does, some as it is: alike without
// these characters.
constexpr const char* kOddName =
    "takes no names and ids with quotation marks, backslashes or control characters";

bool is_plain_name(Text name) {
  return std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<uint8_t>(c) >= 0x20 && c != '"' && c != '\'' && c != '\\' && c != 0x7f;
  });
}

class NameCheck : public TextSink {
 public:
  void put(Text text) override { is_plain_ &= is_plain_name(text); }
  [[nodiscard]] bool is_plain() const { return is_plain_; }

 private:
  bool is_plain_ = true;
};

// Tools ------------------------------------------------------------------------------------------

// What a tool is made of; empty where it is not there.
struct ToolFields {
  Text function;
  Text name;
  Text description;
  Text parameters;
  bool is_plain;  // nothing else is there, and in this order
};

ToolFields fields_of(Text tool) {
  ToolFields fields = {};
  fields.is_plain = true;
  Text key;
  Text value;
  int n = 0;
  for (JsonMembers members(tool); members.next(&key, &value); ++n) {
    const bool is_function = is_json_name(key, "function");
    if (is_function) fields.function = value;
    fields.is_plain &= n == 0 ? is_json_name(key, "type") : n == 1 && is_function;
  }
  if (fields.function.empty() || fields.function[0] != '{') return {};
  n = 0;
  for (JsonMembers members(fields.function); members.next(&key, &value); ++n) {
    const bool is_text = value[0] == '"';
    if (is_json_name(key, "name") && is_text) fields.name = value;
    if (is_json_name(key, "description") && is_text) fields.description = value;
    if (is_json_name(key, "parameters")) fields.parameters = value;
    fields.is_plain &= is_json_name(key, n == 0 ? "name" : n == 1 ? "description" : "parameters");
  }
  fields.is_plain &= n == 3 && !fields.name.empty() && !fields.description.empty();
  return fields;
}

static_assert(kMaxJsonDepth == 32);  // as the refusals say

const char* tool_refusal(const ChatTemplate& chat, Text tool) {
  if (!is_json_object(tool)) return "needs tools that are JSON objects, at most 32 deep";
  const Text pattern = chat_string(chat, ChatString::kTool);
  const ToolFields fields = fields_of(tool);
  if (fields.name.empty()) return "needs tools that are functions with a name";
  if (has_slot(pattern, format::kChatSlotName) && !fields.is_plain) {
    return "needs functions of a name, a description and parameters, in this order";
  }
  NameCheck name;
  print_json(fields.name, kBareStyle, &name);
  if (!name.is_plain()) return kOddName;
  const format::ChatValueForm form = style_of(chat, ChatStyle::kTool).form;
  if (form == format::ChatValueForm::kMembers) return members_refusal(fields.function);
  return form == format::ChatValueForm::kTags ? tags_refusal(fields.function) : nullptr;
}

void put_function(Text function, const format::ChatValueStyle& style, TextSink* sink) {
  if (style.form == format::ChatValueForm::kTags) {
    print_tags(function, (style.flags & format::kChatOwnLists) != 0, sink);
  } else if (style.form == format::ChatValueForm::kMembers) {
    print_members(function, sink);
  } else {
    print_json(function, style, sink);
  }
}

void put_tools(const ChatTemplate& chat, const Conversation& c, ChatSink* sink) {
  ContentSink content(sink);
  const format::ChatValueStyle& style = style_of(chat, ChatStyle::kTool);
  for (size_t i = 0; i < c.tools.size(); ++i) {
    if (i > 0) sink->put(chat_string(chat, ChatString::kToolBetween), false);
    const ToolFields fields = fields_of(c.tools[i]);
    visit_slots(chat_string(chat, ChatString::kTool), [&](Text text, char slot) {
      sink->put(text, false);
      if (slot == format::kChatSlotWhole) print_json(c.tools[i], style, &content);
      if (slot == format::kChatSlotFunction) put_function(fields.function, style, &content);
      if (slot == format::kChatSlotParameters) print_json(fields.parameters, style, &content);
      if (slot == format::kChatSlotName) print_json(fields.name, kBareStyle, &content);
      if (slot == format::kChatSlotDescription) {
        print_json(fields.description, kBareStyle, &content);
      }
    });
  }
}

// Refusals ---------------------------------------------------------------------------------------

// By unit: what may not stand where it does.
constexpr const char* kOutOfPlace[] = {
    "",
    "takes no system text in this conversation",
    "takes no system text in this place",
    "takes no user's message in this place",
    "takes no thinking in this place",
    "takes no assistant's text in this place",
    "takes no call in this place",
    "takes no result of a tool in this place",
    "opens no turn in this place",
    "does not end in this place",
};

struct ContentRules {
  ChatUnit unit;
  ChatString not_in;
  const char* has_text;
  const char* is_blank;
};

constexpr ContentRules kContentRules[] = {
    {ChatUnit::kSystem, ChatString::kNotInSystem,
     "takes no system text with one of its control words",
     "takes no system text without a visible character"},
    {ChatUnit::kUser, ChatString::kNotInUser, "takes no user's text with one of its control words",
     "takes no user's text without a visible character"},
    {ChatUnit::kText, ChatString::kNotInText,
     "takes no assistant's text with one of its control words",
     "takes no assistant's text without a visible character"},
    {ChatUnit::kResult, ChatString::kNotInResult, "takes no result with one of its control words",
     "takes no result without a visible character"},
    {ChatUnit::kThinking, ChatString::kNotInThinking,
     "takes no thinking with one of its control words",
     "takes no thinking without a visible character"},
};

const char* text_refusal(const ChatTemplate& chat, const ContentRules& rules, Text text) {
  if ((chat.header.not_blank & bit_of(rules.unit)) != 0 && is_blank(text)) return rules.is_blank;
  return has_any(text, chat_string(chat, rules.not_in)) ? rules.has_text : nullptr;
}

bool is_id(const ChatTemplate& chat, Text id) {
  const uint32_t n = chat.header.id_characters;
  if (n == 0 || id.empty()) return true;
  if (has_flag(chat, format::kChatLongIds)) {
    // Of ASCII, whose characters are bytes.
    return id.size() >= n &&
           std::all_of(id.begin(), id.end(), [](char c) { return static_cast<uint8_t>(c) < 0x80; });
  }
  return id.size() == n && std::all_of(id.begin(), id.end(), [](char c) {
           const char lower = static_cast<char>(c | 0x20);
           return (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z');
         });
}

constexpr const char* kNeedsNames = "needs the names of functions";
constexpr const char* kNeedsIds = "needs the ids of calls";
constexpr const char* kOtherIds = "needs ids of its kind";

const char* name_refusal(const ChatTemplate& chat, ChatString pattern, Text name, Text id) {
  const Text text = chat_string(chat, pattern);
  const bool needs_both = has_flag(chat, format::kChatNeedsIds);
  if (name.empty() && (needs_both || has_slot(text, format::kChatSlotName))) {
    return kNeedsNames;
  }
  if (id.empty() && (needs_both || has_slot(text, format::kChatSlotId))) {
    return kNeedsIds;
  }
  if (!is_plain_name(name) || !is_plain_name(id)) return kOddName;
  return is_id(chat, id) ? nullptr : kOtherIds;
}

constexpr const char* kToolsLeftOut = "would need tools, which this build leaves out";

const char* message_refusal(const ChatTemplate& chat, const ChatMessage& message) {
  const ChatParts& parts = parts_of(message);
  const ContentRules& rules = kContentRules[static_cast<uint32_t>(message.role)];
  if (!kHasTools && (message.role == ChatRole::kTool || !parts.calls.empty())) return kToolsLeftOut;
  if (kHasTools && message.role == ChatRole::kTool) {
    if (const char* reason = name_refusal(chat, ChatString::kResult, parts.name, parts.id)) {
      return reason;
    }
  }
  if (message.role != ChatRole::kAssistant) return text_refusal(chat, rules, message.content);
  if (!parts.thinking.empty()) {
    if (const char* reason = text_refusal(chat, kContentRules[kChatRoles], parts.thinking)) {
      return reason;
    }
  }
  for (const ChatCall& call : kHasTools ? parts.calls : std::span<const ChatCall>()) {
    if (!is_json_object(call.arguments))
      return "needs arguments that are JSON objects, at most 32 deep";
    if (const char* reason = name_refusal(chat, ChatString::kCall, call.name, call.id)) {
      return reason;
    }
  }
  if (!has_text(message)) return nullptr;
  const bool stands_alone = parts.thinking.empty() && parts.calls.empty();
  const uint32_t not_blank = chat.header.not_blank & bit_of(ChatUnit::kCall);
  if (!stands_alone && not_blank != 0 && is_blank(message.content)) return rules.is_blank;
  return text_refusal(chat, rules, message.content);
}

const char* order_refusal(const ChatTemplate& chat, const Conversation& c) {
  if (c.messages.empty()) return "needs a message";
  const uint32_t refused = chat.header.flags & format::kChatDisorderFlags;
  return disorder_refusal(refused != 0 ? refused & chat_disorder(c) : 0);
}

// A result of no call has no name and id to get: told as what it is, whatever the template takes.
const char* reason_of(const char* reason, const Conversation& c) {
  const bool is_of_call = reason == kNeedsNames || reason == kNeedsIds || reason == kOtherIds;
  const uint32_t found = is_of_call ? chat_disorder(c) & format::kChatResultsWithoutCalls : 0;
  return found != 0 ? disorder_refusal(found) : reason;
}

const char* whole_refusal(const ChatTemplate& chat, const Conversation& c) {
  const size_t n = c.messages.size();
  size_t last = n;  // after the user's last message
  while (last > 0 && c.messages[last - 1].role != ChatRole::kUser) --last;
  if (has_flag(chat, c.tools.empty() ? format::kChatNoTwins : format::kChatNoTwinsWithTools)) {
    for (size_t i = 0; i + 1 < last; ++i) {
      if (is_role(c, i, ChatRole::kUser) &&
          is_same(c.messages[i].content, c.messages[last - 1].content)) {
        return "tells the last question by its text, and it was asked before; word it otherwise";
      }
    }
  }
  for (size_t i = 0; i < n && has_flag(chat, format::kChatDropThinking); ++i) {
    const ChatMessage& m = c.messages[i];
    const bool counts = i >= last && (i + 1 == n || has_flag(chat, format::kChatTurnKeepsThinking));
    // Of an answer whose thinking is known templates look for none in its text.
    if ((counts || !parts_of(m).thinking.empty()) && m.role == ChatRole::kAssistant &&
        view_of(m.content).find(kThinkEnd) != std::string_view::npos) {
      return "takes no thinking in the text of this assistant's message";
    }
  }
  return nullptr;
}

}  // namespace

const char* chat_refusal(const ChatTemplate& chat, const Conversation& c) {
  if (!c.tools.empty() && chat_string(chat, ChatString::kTool).empty()) {
    return "has no place for tools";
  }
  if (!kHasTools && !c.tools.empty()) return kToolsLeftOut;
  for (const Text tool : kHasTools ? c.tools : std::span<const Text>()) {
    if (const char* reason = tool_refusal(chat, tool)) return reason;
  }
  const bool is_whole = c.end != ChatEnd::kGoesOn;
  if (is_whole) {
    if (const char* reason = order_refusal(chat, c)) return reason;
  }
  for (const ChatMessage& message : c.messages) {
    const char* const reason = message_refusal(chat, message);
    if (reason != nullptr) return is_whole ? reason_of(reason, c) : reason;
  }
  if (is_whole) {
    if (const char* reason = whole_refusal(chat, c)) return reason;
  } else if (twins_are_last(chat, c)) {
    return "writes a question otherwise when it is asked again";
  }
  ChatWalk walk(chat, c);
  for (ChatStep step; walk.next(&step);) {
  }
  return walk.refusal();
}

// The row of units ------------------------------------------------------------------------------

ChatWalk::ChatWalk(const ChatTemplate& chat, const Conversation& conversation, size_t first_message)
    : chat_(chat),
      conversation_(conversation),
      first_question_(kNoMessage),
      last_question_(kNoMessage) {
  const std::span<const ChatMessage> messages = conversation.messages;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != ChatRole::kUser) continue;
    if (first_question_ == kNoMessage) first_question_ = i;
    last_question_ = i;
  }
  // What follows has a question, and is not known.
  if (conversation.end == ChatEnd::kGoesOn) last_question_ = kNoMessage;
  moves_system_ =
      has_flag(chat, format::kChatSystemInLast) && is_role(conversation, 0, ChatRole::kSystem);
  while (at_.unit == ChatUnit::kStart ? first_message > 0 : behind(at_).message < first_message) {
    at_ = at_.unit == ChatUnit::kStart ? first_of(first_message - 1) : behind(at_);
    left_ = at_;
  }
}

bool ChatWalk::begins_at(const Conversation& c, size_t message) {
  return message > (is_role(c, 0, ChatRole::kSystem) ? 1U : 0U) &&
         parts_of(c.messages[message - 1]).calls.empty() &&
         parts_of(c.messages[message - 1]).thinking.empty();
}

ChatPosition ChatWalk::first_of(size_t message) const {
  const auto index = static_cast<uint32_t>(message);
  if (message >= conversation_.messages.size()) {
    const bool opens = conversation_.end == ChatEnd::kOpened;
    return {opens ? ChatUnit::kOpen : ChatUnit::kEnd, index, 0};
  }
  const ChatMessage& m = conversation_.messages[message];
  switch (m.role) {
    case ChatRole::kSystem:
      if (message > 0) return {ChatUnit::kLater, index, 0};
      return moves_system_ ? first_of(1) : ChatPosition{ChatUnit::kSystem, 0, 0};
    case ChatRole::kUser:
      if (moves_system_ && message == last_question_) return {ChatUnit::kSystem, index, 0};
      return {ChatUnit::kUser, index, 0};
    case ChatRole::kAssistant:
      break;
    case ChatRole::kTool:
      return {ChatUnit::kResult, index, 0};
  }
  if (!parts_of(m).thinking.empty()) return {ChatUnit::kThinking, index, 0};
  return {has_text(m) ? ChatUnit::kText : ChatUnit::kCall, index, 0};
}

ChatPosition ChatWalk::behind(const ChatPosition& position) const {
  const uint32_t index = position.message;
  if (position.unit == ChatUnit::kStart) return first_of(0);
  const ChatMessage& m = conversation_.messages[index];
  const size_t n_calls = parts_of(m).calls.size();
  switch (position.unit) {
    case ChatUnit::kSystem:
      if (moves_system_) return {ChatUnit::kUser, index, 0};
      break;
    case ChatUnit::kThinking:
      return {has_text(m) ? ChatUnit::kText : ChatUnit::kCall, index, 0};
    case ChatUnit::kText:
      if (n_calls > 0) return {ChatUnit::kCall, index, 0};
      break;
    case ChatUnit::kCall:
      if (position.call + 1 < n_calls) return {ChatUnit::kCall, index, position.call + 1};
      break;
    default:
      break;
  }
  return first_of(size_t{index} + 1);
}

uint32_t ChatWalk::places_of(const ChatPosition& position) const {
  const size_t n = conversation_.messages.size();
  if (position.unit == ChatUnit::kStart || position.message >= n) return 0;
  const size_t index = position.message;
  const ChatMessage& m = conversation_.messages[index];
  const ChatParts& parts = parts_of(m);
  const bool goes_on = conversation_.end == ChatEnd::kGoesOn;
  const bool is_last_question =
      index == last_question_ ||
      (m.role == ChatRole::kUser && last_question_ != kNoMessage &&
       twins_are_last(chat_, conversation_) &&
       is_same(m.content, conversation_.messages[last_question_].content));
  // Templates trim what stands before a blank question together with it.
  const bool has_text = m.role == ChatRole::kUser ? !is_blank(m.content) : !m.content.empty();
  const auto bit = [](bool is_set, uint32_t which) { return is_set ? which : 0; };
  return bit(!goes_on && index + 1 == n, format::kChatLast) |
         bit(last_question_ != kNoMessage && index > last_question_, format::kChatAfterQuestions) |
         bit(index == first_question_, format::kChatFirstQuestion) |
         bit(is_last_question, format::kChatLastQuestion) |
         bit(!parts.thinking.empty(), format::kChatHasThinking) |
         bit(has_text, format::kChatHasText) | bit(!parts.calls.empty(), format::kChatHasCalls);
}

namespace {

uint32_t places_of_all(const Conversation& c) {
  const bool has_question =
      c.end == ChatEnd::kGoesOn ||
      std::any_of(c.messages.begin(), c.messages.end(),
                  [](const ChatMessage& m) { return m.role == ChatRole::kUser; });
  return (has_question ? format::kChatHasQuestion : 0) |
         (c.tools.empty() ? 0 : format::kChatHasTools) |
         (c.thinking == ChatThinking::kOn ? format::kChatThinks : 0) |
         (c.thinking == ChatThinking::kOff ? format::kChatThinksNot : 0) |
         (is_role(c, 0, ChatRole::kSystem) ? format::kChatHasSystem : 0);
}

}  // namespace

bool may_follow(const Conversation& c, const ChatRule& rule, ChatUnit left) {
  constexpr uint32_t kOfAll = format::kChatHasTools | format::kChatThinks | format::kChatThinksNot |
                              format::kChatHasSystem | format::kChatHasQuestion;
  return rule.leaves_out == 0 && (rule.left & bit_of(left)) != 0 &&
         (rule.right & ~bit_of(ChatUnit::kSystem)) != 0 &&
         (places_of_all(c) & rule.places) == (rule.values & kOfAll);
}

uint32_t ChatWalk::places(const ChatPosition& right) const {
  return places_of_all(conversation_) | (left_out_ ? format::kChatLeftOutHere : 0) |
         places_of(right) << format::kChatRight | places_of(left_) << format::kChatLeft;
}

bool ChatWalk::peek(ChatPosition* right, uint32_t* where) const {
  if (is_over_) return false;
  *right = behind(at_);
  const bool is_end = right->unit == ChatUnit::kEnd || right->unit == ChatUnit::kOpen;
  if (is_end && conversation_.end == ChatEnd::kGoesOn) return false;
  *where = places(*right);
  return true;
}

void ChatWalk::pass(const ChatPosition& right, bool leaves_out) {
  at_ = right;
  left_out_ = leaves_out;
  if (!leaves_out) left_ = right;
  is_over_ = right.unit == ChatUnit::kEnd || right.unit == ChatUnit::kOpen;
}

bool ChatWalk::next(ChatStep* step) {
  ChatPosition right = {};
  uint32_t where = 0;
  if (!peek(&right, &where)) return false;
  for (size_t i = 0; i < chat_.header.n_rules; ++i) {
    const ChatRule rule = chat_rule(chat_, i);
    if ((rule.left & bit_of(left_.unit)) == 0 || (rule.right & bit_of(right.unit)) == 0 ||
        (where & rule.places) != rule.values) {
      continue;
    }
    *step = {left_, right, rule, i};
    pass(right, rule.leaves_out != 0);
    return true;
  }
  refusal_ = kOutOfPlace[static_cast<uint32_t>(right.unit)];
  is_over_ = true;
  return false;
}

// The text ---------------------------------------------------------------------------------------

void put_unit(const ChatTemplate& chat, const Conversation& c, const ChatPosition& position,
              uint8_t left_trims, uint8_t right_trims, ChatSink* sink) {
  if (position.unit == ChatUnit::kStart || position.message >= c.messages.size()) return;
  const size_t index = position.unit == ChatUnit::kSystem ? 0 : position.message;
  const ChatMessage& m = c.messages[index];
  if (kHasTools && position.unit == ChatUnit::kCall) {
    return put_call(chat, parts_of(m).calls[position.call], position.call, sink);
  }
  if (kHasTools && position.unit == ChatUnit::kResult) return put_result(chat, m, sink);
  const bool is_text = position.unit == ChatUnit::kText;
  const Text text = position.unit == ChatUnit::kThinking ? parts_of(m).thinking
                    : is_text                            ? without_thinking(chat, m.content)
                                                         : m.content;
  sink->put(trimmed(text, high_trim(left_trims), low_trim(right_trims)), true);
}

void put_joint(const ChatTemplate& chat, const Conversation& c, Text joint, ChatSink* sink) {
  visit_slots(joint, [&](Text text, char slot) {
    sink->put(text, false);
    if (kHasTools && slot == format::kChatSlotTools) put_tools(chat, c, sink);
    if (slot == format::kChatSlotDate) {
      sink->put(c.date.empty() ? chat_string(chat, ChatString::kDate) : c.date, true);
    }
  });
}

void put_chat_text(const ChatTemplate& chat, const Conversation& c, ChatSink* sink) {
  ChatWalk walk(chat, c);
  uint8_t left_trims = 0;
  for (ChatStep step; walk.next(&step);) {
    if (step.rule.leaves_out != 0) continue;
    put_unit(chat, c, step.left, left_trims, step.rule.trims, sink);
    put_joint(chat, c, chat_joint(chat, step.rule), sink);
    left_trims = step.rule.trims;
  }
}

void put_last_joint(const ChatTemplate& chat, const Conversation& c, ChatSink* sink) {
  ChatWalk walk(chat, c);
  ChatRule last = {};
  for (ChatStep step; walk.next(&step);) last = step.rule;
  put_joint(chat, c, chat_joint(chat, last), sink);
}

}  // namespace cria
