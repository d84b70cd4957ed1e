#include "converter/chat_template/stored_form.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "quant/text/chat_order.h"
#include "quant/text/tokenizer_check.h"

namespace cria::converter {
namespace {

using format::ChatRule;
using format::ChatString;
using format::ChatTemplateHeader;

// A dialogue as the runtime takes it; it points to the dialogue.
struct RuntimeDialogue {
  std::vector<std::vector<ChatCall>> calls;
  std::vector<ChatParts> parts;
  std::vector<ChatMessage> messages;
  std::vector<std::span<const char>> tools;

  explicit RuntimeDialogue(Dialogue&&) = delete;
  explicit RuntimeDialogue(const Dialogue& dialogue) {
    const size_t n = dialogue.messages.size();
    calls.resize(n);
    parts.reserve(n);
    for (size_t i = 0; i < n; ++i) {
      const DialogueMessage& m = dialogue.messages[i];
      for (const DialogueCall& c : m.calls) calls[i].push_back({c.name, c.arguments, c.id});
      parts.push_back({m.thinking, calls[i], m.name, m.id});
      messages.push_back({m.role, m.content, &parts.back()});
    }
    tools.assign(dialogue.tools.begin(), dialogue.tools.end());
  }
};

Conversation conversation_of(const Dialogue& dialogue, const RuntimeDialogue& runtime) {
  return {runtime.messages,
          dialogue.opens_turn ? ChatEnd::kOpened : ChatEnd::kClosed,
          {},
          runtime.tools,
          dialogue.thinking};
}

class StringSink : public ChatSink {
 public:
  void put(std::span<const char> text, bool) override { written.append(text.data(), text.size()); }
  std::string written;
};

uint32_t checked(size_t n, size_t most) {
  if (n <= most) return static_cast<uint32_t>(n);
  throw std::runtime_error("its texts are too long");
}

}  // namespace

std::vector<uint8_t> build_chat_section(const StoredTemplate& stored, uint32_t kind) {
  ChatTemplateHeader header = {};
  header.kind = kind;
  header.flags = stored.flags;
  header.n_rules = checked(stored.rules.size(), format::kMaxChatRules);
  header.not_blank = static_cast<uint16_t>(stored.not_blank);
  header.id_characters = static_cast<uint8_t>(stored.id_characters);
  header.result_trims = stored.result_trims;
  std::copy(stored.styles.begin(), stored.styles.end(), header.styles);
  std::vector<ChatRule> rules;
  std::string joints;
  for (const StoredRule& rule : stored.rules) {
    // What stands there already is used again.
    const size_t found = joints.find(rule.text);
    const size_t at = found != std::string::npos ? found : joints.size();
    if (found == std::string::npos) joints += rule.text;
    rules.push_back({static_cast<uint16_t>(rule.left), static_cast<uint16_t>(rule.right),
                     rule.places, rule.values, checked(at, format::kMaxChatJointBytes),
                     static_cast<uint16_t>(checked(rule.text.size(), UINT16_MAX)), rule.trims,
                     static_cast<uint8_t>(rule.leaves_out ? 1 : 0)});
  }
  std::string text = joints;
  header.string_bytes[0] = checked(joints.size(), format::kMaxChatJointBytes);
  for (size_t i = 1; i < format::kChatStrings; ++i) {
    header.string_bytes[i] = checked(stored.strings[i].size(), format::kMaxChatStringBytes);
    text += stored.strings[i];
  }
  const size_t n_rule_bytes = rules.size() * sizeof(ChatRule);
  std::vector<uint8_t> section(sizeof header + n_rule_bytes + text.size());
  std::memcpy(section.data(), &header, sizeof header);
  if (!rules.empty()) std::memcpy(section.data() + sizeof header, rules.data(), n_rule_bytes);
  std::copy(text.begin(), text.end(), section.data() + sizeof header + n_rule_bytes);
  ChatTemplate chat = {};
  if (const char* wrong = check_chat_template(section, &chat)) throw std::runtime_error(wrong);
  return section;
}

uint32_t disorder_of(const Dialogue& dialogue) {
  const RuntimeDialogue runtime(dialogue);
  return chat_disorder(conversation_of(dialogue, runtime));
}

StoredForm::StoredForm(const StoredTemplate& stored)
    : section_(build_chat_section(stored, format::kChatKindOwn)),
      date_format_(stored[ChatString::kDateFormat]) {
  static_cast<void>(check_chat_template(section_, &chat_));
}

std::string StoredForm::refusal(const Dialogue& dialogue) const {
  const RuntimeDialogue runtime(dialogue);
  const char* const reason = chat_refusal(chat_, conversation_of(dialogue, runtime));
  return reason != nullptr ? reason : "";
}

std::optional<std::string> StoredForm::text(const Dialogue& dialogue) const {
  const RuntimeDialogue runtime(dialogue);
  const auto date = date_format_.empty() ? std::nullopt : format_date(date_format_, dialogue.date);
  const std::string date_text = date.value_or("");
  Conversation conversation = conversation_of(dialogue, runtime);
  conversation.date = date_text;
  if (chat_refusal(chat_, conversation) != nullptr) return std::nullopt;
  StringSink sink;
  put_chat_text(chat_, conversation, &sink);
  return std::move(sink.written);
}

std::optional<std::string> StoredForm::call_text(const DialogueMessage& message,
                                                 size_t call) const {
  if (!has_pattern(ChatString::kCall)) return std::nullopt;
  const Dialogue alone = {.messages = {message}};
  const RuntimeDialogue runtime(alone);
  StringSink sink;
  put_unit(chat_, {runtime.messages, ChatEnd::kClosed, {}},
           {format::ChatUnit::kCall, 0, static_cast<uint32_t>(call)}, 0, 0, &sink);
  return std::move(sink.written);
}

std::optional<std::string> StoredForm::result_text(const DialogueMessage& message) const {
  if (!has_pattern(ChatString::kResult)) return std::nullopt;
  const Dialogue alone = {.messages = {message}};
  const RuntimeDialogue runtime(alone);
  StringSink sink;
  put_unit(chat_, {runtime.messages, ChatEnd::kClosed, {}}, {format::ChatUnit::kResult, 0, 0}, 0, 0,
           &sink);
  return std::move(sink.written);
}

std::optional<std::string> StoredForm::tools_text(const Dialogue& dialogue) const {
  if (!has_pattern(ChatString::kTool)) return std::nullopt;
  constexpr char kSlot[] = {'\0', format::kChatSlotTools};
  const RuntimeDialogue runtime(dialogue);
  StringSink sink;
  put_joint(chat_, {{}, ChatEnd::kClosed, {}, runtime.tools}, kSlot, &sink);
  return std::move(sink.written);
}

void StoredForm::visit_units(const Dialogue& dialogue,
                             const std::function<std::optional<bool>(const Unit&)>& visit) const {
  const RuntimeDialogue runtime(dialogue);
  const Conversation conversation = conversation_of(dialogue, runtime);
  ChatWalk walk(chat_, conversation);
  ChatPosition right = {};
  uint32_t places = 0;
  while (walk.peek(&right, &places)) {
    const auto is_written =
        visit({walk.left().unit, right.unit, right.message, right.call, places});
    if (!is_written) return;
    walk.pass(right, !*is_written);
  }
}

bool StoredForm::has_pattern(ChatString which) const { return !chat_string(chat_, which).empty(); }

std::vector<StoredForm::RuleUse> StoredForm::rules_of(const Dialogue& dialogue) const {
  const RuntimeDialogue runtime(dialogue);
  const Conversation conversation = conversation_of(dialogue, runtime);
  std::vector<RuleUse> uses;
  ChatWalk walk(chat_, conversation);
  ChatPosition right = {};
  uint32_t places = 0;
  ChatStep step;
  while (walk.peek(&right, &places) && walk.next(&step)) uses.push_back({step.rule_index, places});
  return uses;
}

}  // namespace cria::converter
