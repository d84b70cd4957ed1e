#include "converter/chat_template/named_templates.h"

#include <algorithm>
#include <iterator>

#include "quant/text/unicode.h"
#include "quant/text/utf8.h"

namespace cria::converter {
namespace {

// Where the texts of tokens and the date stand in the strings of a template.
constexpr char kBos = '\1';
constexpr char kEos = '\2';
constexpr char kDate = '\3';

// A message is its role's name in a header, its content and an end. Roles come as often and in any
// order.
struct Headers {
  std::string_view name;
  std::string_view begin;
  std::string_view before_role;
  std::string_view after_role;
  std::string_view end;
  bool trims = true;  // contents lose white space at their ends
  // The beginning takes the first system text, or none, and goes on with this.
  std::string_view after_system = "";
  bool has_thinking = false;  // as Qwen 3 writes it, switched off
};
constexpr Headers kHeaders[] = {
    {.name = "chatml",
     .begin = "",
     .before_role = "<|im_start|>",
     .after_role = "\n",
     .end = "<|im_end|>\n",
     .trims = false},
    {.name = "llama3",
     .begin = "\1",
     .before_role = "<|start_header_id|>",
     .after_role = "<|end_header_id|>\n\n",
     .end = "<|eot_id|>"},
    {.name = "llama3.2",
     .begin = "\1<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December "
              "2023\nToday Date: \3\n\n",
     .before_role = "<|start_header_id|>",
     .after_role = "<|end_header_id|>\n\n",
     .end = "<|eot_id|>",
     .after_system = "<|eot_id|>"},
    {.name = "zephyr", .begin = "", .before_role = "<|", .after_role = "|>\n", .end = "\2\n"},
    {.name = "phi3", .begin = "", .before_role = "<|", .after_role = "|>\n", .end = "<|end|>\n"},
    {.name = "qwen3",
     .begin = "",
     .before_role = "<|im_start|>",
     .after_role = "\n",
     .end = "<|im_end|>\n",
     .trims = false,
     .has_thinking = true},
    {.name = "granite",
     .begin = "",
     .before_role = "<|start_of_role|>",
     .after_role = "<|end_of_role|>",
     .end = "<|end_of_text|>\n",
     .trims = false},
};

struct Turn {
  std::string_view before;
  std::string_view after;
};

// User and assistant take turns; the system text stands at the beginning.
struct Turns {
  std::string_view name;
  std::string_view begin;
  Turn system;
  Turn user;
  Turn assistant;
  std::string_view opened;
  bool has_system_in_user = false;  // in the first question
};
constexpr Turns kTurns[] = {
    {.name = "llama2",
     .begin = "",
     .system = {"<<SYS>>\n", "\n<</SYS>>\n\n"},
     .user = {"\1[INST] ", " [/INST]"},
     .assistant = {" ", " \2"},
     .opened = "",
     .has_system_in_user = true},
    {.name = "mistral",
     .begin = "\1",
     .system = {"", "\n\n"},
     .user = {"[INST] ", " [/INST]"},
     .assistant = {" ", "\2"},
     .opened = ""},
    {.name = "vicuna",
     .begin = "\1",
     .system = {"", "\n\n"},
     .user = {"USER: ", "\n"},
     .assistant = {"ASSISTANT: ", "\2\n"},
     .opened = "ASSISTANT:"},
    {.name = "alpaca",
     .begin = "\1",
     .system = {"", "\n\n"},
     .user = {"### Instruction:\n", "\n\n"},
     .assistant = {"### Response:\n", "\2\n\n"},
     .opened = "### Response:\n"},
};
static_assert(std::size(kHeaders) + std::size(kTurns) ==
              format::kChatKinds - format::kChatKindNamed);

// As Python strips.
std::string_view stripped(std::string_view text) {
  size_t begin = text.size();
  size_t end = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text.data() + i, text.size() - i);
    if (!is_stripped(c.code)) begin = std::min(begin, i);
    i += c.n_bytes;
    if (!is_stripped(c.code)) end = i;
  }
  return begin < end ? text.substr(begin, end - begin) : std::string_view();
}

std::string_view without_newlines_before(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of('\n'), text.size()));
}

class NamedText {
 public:
  NamedText(const TokenTexts& tokens, std::string_view date) : tokens_(tokens), date_(date) {}

  void put(std::string_view own) {
    for (const char c : own) {
      if (c == kBos) {
        text_ += token("bos_token");
      } else if (c == kEos) {
        text_ += token("eos_token");
      } else if (c == kDate) {
        text_ += date_;
      } else {
        text_ += c;
      }
    }
  }
  void say(std::string_view content) { text_ += content; }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  [[nodiscard]] std::string_view token(std::string_view name) const {
    const auto found = tokens_.find(name);
    return found == tokens_.end() ? std::string_view() : found->second;
  }

  const TokenTexts& tokens_;
  std::string_view date_;
  std::string text_;
};

bool begins_with_system(const Probe& probe) {
  return !probe.empty() && probe[0].role == ChatRole::kSystem;
}

void put_messages(const Headers& named, const Probe& probe, bool opens_turn, NamedText* text) {
  const auto content_of = [&](const ProbeMessage& message) {
    return named.trims ? stripped(message.content) : std::string_view(message.content);
  };
  const auto put_header = [&](ChatRole role) {
    text->put(named.before_role);
    text->say(kChatRoleNames[static_cast<size_t>(role)]);
    text->put(named.after_role);
  };
  constexpr std::string_view kNoThinking = "<think>\n\n</think>\n\n";
  constexpr std::string_view kThinkingEnd = "</think>";
  text->put(named.begin);
  size_t first = 0;
  if (!named.after_system.empty()) {
    if (begins_with_system(probe)) text->say(content_of(probe[first++]));
    text->put(named.after_system);
  }
  for (size_t i = first; i < probe.size(); ++i) {
    std::string_view content = content_of(probe[i]);
    put_header(probe[i].role);
    if (named.has_thinking && probe[i].role == ChatRole::kAssistant) {
      const size_t end = content.rfind(kThinkingEnd);
      if (end != std::string_view::npos) {
        content = without_newlines_before(content.substr(end + kThinkingEnd.size()));
      }
      if (i + 1 == probe.size()) {
        text->say(kNoThinking);
        content = without_newlines_before(content);
      }
    }
    text->say(content);
    text->put(named.end);
  }
  if (!opens_turn) return;
  put_header(ChatRole::kAssistant);
  if (named.has_thinking) text->say(kNoThinking);
}

// False: the roles take no turns.
bool put_messages(const Turns& named, const Probe& probe, bool opens_turn, NamedText* text) {
  const size_t first = begins_with_system(probe) ? 1 : 0;
  std::string system;
  if (first == 1) {
    system.append(named.system.before)
        .append(stripped(probe[0].content))
        .append(named.system.after);
  }
  text->put(named.begin);
  if (!named.has_system_in_user) text->say(system);
  for (size_t i = first; i < probe.size(); ++i) {
    const bool is_users = (i - first) % 2 == 0;
    if (probe[i].role != (is_users ? ChatRole::kUser : ChatRole::kAssistant)) return false;
    const Turn& turn = is_users ? named.user : named.assistant;
    std::string content = probe[i].content;
    if (named.has_system_in_user && i == first) content.insert(0, system);
    text->put(turn.before);
    text->say(stripped(content));
    text->put(turn.after);
  }
  if (opens_turn) text->put(named.opened);
  return true;
}

bool mentions_end(const Headers& named) { return named.end.find(kEos) != std::string_view::npos; }
bool mentions_end(const Turns& named) {
  return named.assistant.after.find(kEos) != std::string_view::npos;
}

template <typename Named>
const Named* find(std::span<const Named> all, uint32_t kind) {
  const auto found = std::find_if(all.begin(), all.end(), [kind](const Named& each) {
    return each.name == format::kChatTemplateNames[kind];
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

std::optional<uint32_t> find_named_template(std::string_view name) {
  for (uint32_t kind = format::kChatKindNamed; kind < format::kChatKinds; ++kind) {
    if (name == format::kChatTemplateNames[kind]) return kind;
  }
  return std::nullopt;
}

bool named_template_has_date(uint32_t kind) {
  const Headers* const headers = find<Headers>(kHeaders, kind);
  return headers != nullptr && headers->begin.find(kDate) != std::string_view::npos;
}

Rendering render_named_template(uint32_t kind, const TokenTexts& tokens, const Probe& probe,
                                bool opens_turn, std::string_view date) {
  const Headers* const headers = find<Headers>(kHeaders, kind);
  const Turns* const turns = find<Turns>(kTurns, kind);
  const auto end = tokens.find("eos_token");
  const bool has_end = end != tokens.end() && !end->second.empty();
  if (!has_end && (headers != nullptr ? mentions_end(*headers) : mentions_end(*turns))) {
    return {std::nullopt, "it needs an eos_token, and the checkpoint has none", ""};
  }
  NamedText text(tokens, date);
  if (headers != nullptr) {
    put_messages(*headers, probe, opens_turn, &text);
  } else if (!put_messages(*turns, probe, opens_turn, &text)) {
    return {std::nullopt, "roles must take turns", ""};
  }
  return {text.take(), "", ""};
}

std::string named_templates() {
  std::string text;
  for (uint32_t kind = format::kChatKindNamed; kind < format::kChatKinds; ++kind) {
    if (!text.empty()) text += ", ";
    text += format::kChatTemplateNames[kind];
  }
  return text;
}

}  // namespace cria::converter
