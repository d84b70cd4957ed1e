#include "converter/chat_template_import.h"

#include <algorithm>
#include <cstring>

#include "converter/error.h"

namespace cria::converter {
namespace {

using format::ChatString;
using format::ChatTemplateHeader;
using format::ChatTemplateKind;

struct Source {
  std::string_view jinja;
  std::string bos;
  std::string eos;

  [[nodiscard]] bool has(std::string_view text) const {
    return jinja.find(text) != std::string_view::npos;
  }
  // Whether a string literal, in either kind of quotes, is exactly text.
  [[nodiscard]] bool has_literal(const std::string& text) const {
    return has("'" + text + "'") || has("\"" + text + "\"");
  }
};

// The tags of a template without the blanks that Jinja ignores in them and with one kind of quotes,
// so that what is searched for has one spelling. Comments are left out.
std::string squeezed(std::string_view jinja) {
  std::string result;
  char quote = 0;
  bool in_tag = false;
  for (size_t i = 0; i < jinja.size(); ++i) {
    const char c = jinja[i];
    const std::string_view pair = jinja.substr(i, 2);
    if (quote != 0) {
      if (c == quote) quote = 0;
      result += c == '"' ? '\'' : c;
      if (c == '\\' && i + 1 < jinja.size()) result += jinja[++i];
    } else if (!in_tag && pair == "{#") {
      const size_t end = jinja.find("#}", i);
      if (end == std::string_view::npos) break;
      i = end + 1;
    } else if (in_tag && (c == '\'' || c == '"')) {
      quote = c;
      result += '\'';
    } else {
      if (pair == "{{" || pair == "{%") in_tag = true;
      if (pair == "}}" || pair == "%}") in_tag = false;
      const bool is_blank = c == ' ' || c == '\n' || c == '\t' || c == '\r';
      if (!in_tag || !is_blank) result += c;
    }
  }
  return result;
}

// A string literal's text without its escapes.
std::string unescaped(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    const char c = text[++i];
    result += c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  return result;
}

ChatTemplateStrings make(ChatTemplateKind kind, const char* name) {
  ChatTemplateStrings chat = {};
  chat.kind = kind;
  chat.name = name;
  return chat;
}

// The same text around all three roles: before + role + after_role content suffix.
void set_roles(const std::string& before, const std::string& after_role, const std::string& suffix,
               ChatTemplateStrings* chat) {
  (*chat)[ChatString::kSystemPrefix] = before + "system" + after_role;
  (*chat)[ChatString::kUserPrefix] = before + "user" + after_role;
  (*chat)[ChatString::kAssistantPrefix] = before + "assistant" + after_role;
  for (const ChatString which :
       {ChatString::kSystemSuffix, ChatString::kUserSuffix, ChatString::kAssistantSuffix}) {
    (*chat)[which] = suffix;
  }
}

std::optional<ChatTemplateStrings> read_llama3(const Source& source) {
  if (!source.has("<|start_header_id|>") || !source.has("<|end_header_id|>") ||
      !source.has("<|eot_id|>")) {
    return std::nullopt;
  }
  // Llama 4 and tools-only variants put other things between the headers.
  const bool has_dates = source.has("Cutting Knowledge Date: December 2023");
  ChatTemplateStrings chat = has_dates ? make(ChatTemplateKind::kLlama32, "llama3.2")
                                       : make(ChatTemplateKind::kLlama3, "llama3");
  set_roles("<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", &chat);
  if (source.has("bos_token")) chat[ChatString::kBegin] = source.bos;
  if (source.has("<|begin_of_text|>")) chat[ChatString::kBegin] = "<|begin_of_text|>";
  if (source.has("trim") || source.has("strip()")) chat.flags |= format::kChatTrim;
  if (has_dates) {
    // The date the template falls back to: a device may have no clock, and the same text must give
    // the same tokens every day.
    chat[ChatString::kSystemPrefix] +=
        "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n";
    chat.flags |= format::kChatAlwaysSystem;
  }
  return chat;
}

// Where each literal of a text ends, all found at once: a template can begin as many as it likes.
class LiteralEnds {
 public:
  // quote: that which ends the literals; 0: they stand outside of tags, and end where one begins.
  LiteralEnds(std::string_view text, char quote) : ends_(text.size() + 1, text.size()) {
    for (size_t i = text.size(); i-- > 0;) {
      const bool is_escape = quote != 0 && text[i] == '\\';
      const bool is_end = text[i] == (quote != 0 ? quote : '{');
      ends_[i] = is_end ? i : ends_[std::min(i + (is_escape ? 2 : 1), text.size())];
    }
  }
  // The end of the literal whose text begins at begin; the text's size when it has none.
  [[nodiscard]] size_t end_of(size_t begin) const { return ends_[begin]; }

 private:
  std::vector<size_t> ends_;
};

// The system text that a template writes when the conversation has none: what stands between its
// system prefix and suffix in one literal.
std::string default_system(std::string_view jinja, std::string_view prefix,
                           std::string_view suffix) {
  const LiteralEnds single_quoted(jinja, '\'');
  const LiteralEnds double_quoted(jinja, '"');
  const LiteralEnds unquoted(jinja, '\0');
  size_t end = 0;
  for (size_t at = jinja.find(prefix); at != std::string_view::npos;
       at = jinja.find(prefix, at + 1)) {
    const size_t begin = at + prefix.size();
    if (end < begin) end = jinja.find(suffix, begin);
    if (end == std::string_view::npos) break;
    const char before = at == 0 ? '\0' : jinja[at - 1];
    const LiteralEnds& ends = before == '\''  ? single_quoted
                              : before == '"' ? double_quoted
                                              : unquoted;
    if (end > begin && ends.end_of(begin) >= end)
      return unescaped(jinja.substr(begin, end - begin));
  }
  return "";
}

std::optional<ChatTemplateStrings> read_chatml(const Source& source, const std::string& tight) {
  if (!source.has("<|im_start|>") || !source.has("<|im_end|>") || source.has("<|im_sep|>")) {
    return std::nullopt;
  }
  ChatTemplateStrings chat = make(ChatTemplateKind::kChatMl, "chatml");
  set_roles("<|im_start|>", "\n", "<|im_end|>\n", &chat);
  if (source.has("bos_token")) chat[ChatString::kBegin] = source.bos;
  if (tight.find("content']|trim") != std::string::npos ||
      tight.find("content|trim") != std::string::npos ||
      tight.find("content'].strip()") != std::string::npos) {
    chat.flags |= format::kChatTrim;
  }
  std::string system = default_system(source.jinja, "<|im_start|>system\\n", "<|im_end|>");
  if (system.empty()) system = default_system(source.jinja, "<|im_start|>system\n", "<|im_end|>");
  if (!system.empty()) {
    chat[ChatString::kDefaultSystem] = system;
    chat.flags |= format::kChatAlwaysSystem;
  }
  return chat;
}

std::optional<ChatTemplateStrings> read_granite(const Source& source) {
  if (!source.has("<|start_of_role|>") || !source.has("<|end_of_role|>")) return std::nullopt;
  ChatTemplateStrings chat = make(ChatTemplateKind::kGranite, "granite");
  set_roles("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>\n", &chat);
  if (source.has("Knowledge Cutoff Date: April 2024")) {
    // With a fixed date, for the reason given for Llama 3.2.
    chat[ChatString::kDefaultSystem] =
        "Knowledge Cutoff Date: April 2024.\nToday's Date: July 26, 2024.\n"
        "You are Granite, developed by IBM. You are a helpful AI assistant.";
    if (!source.has("Today's Date")) {
      chat[ChatString::kDefaultSystem] =
          "Knowledge Cutoff Date: April 2024. "
          "You are Granite, developed by IBM. You are a helpful AI assistant.";
    }
    chat.flags |= format::kChatAlwaysSystem;
  }
  return chat;
}

// <|user|> and the like are plain text here: only models whose messages end with EOS are meant.
std::optional<ChatTemplateStrings> read_zephyr(const Source& source, const std::string& tight) {
  const bool ends_user =
      tight.find("<|user|>\\n'+message['content']+eos_token") != std::string::npos ||
      tight.find("<|user|>\n'+message['content']+eos_token") != std::string::npos;
  if (!ends_user || !source.has("<|assistant|>") || source.eos.empty()) return std::nullopt;
  ChatTemplateStrings chat = make(ChatTemplateKind::kZephyr, "zephyr");
  set_roles("<|", "|>\n", source.eos + "\n", &chat);
  return chat;
}

std::optional<ChatTemplateStrings> read_llama2(const Source& source, const std::string& tight) {
  if (!source.has("[INST]") || !source.has("<<SYS>>")) return std::nullopt;
  if (source.bos.empty() || source.eos.empty()) return std::nullopt;
  ChatTemplateStrings chat = make(ChatTemplateKind::kLlama2, "llama2");
  chat.flags = format::kChatSystemInUser | format::kChatOpenTurnEmpty;
  if (source.has("strip()") || source.has("trim")) chat.flags |= format::kChatTrim;
  const bool bos_every_turn = tight.find("bos_token+'[INST]") != std::string::npos;
  chat[ChatString::kBegin] = bos_every_turn ? "" : source.bos;
  chat[ChatString::kUserPrefix] = (bos_every_turn ? source.bos : "") + "[INST] ";
  chat[ChatString::kUserSuffix] = " [/INST]";
  chat[ChatString::kSystemPrefix] = "<<SYS>>\n";
  chat[ChatString::kSystemSuffix] = "\n<</SYS>>\n\n";
  chat[ChatString::kAssistantPrefix] = " ";
  chat[ChatString::kAssistantSuffix] = " " + source.eos;
  return chat;
}

std::optional<ChatTemplateStrings> read_mistral(const Source& source, const std::string& tight) {
  if (!source.has("[INST]") || !source.has("[/INST]") || source.has("[SYSTEM_PROMPT]")) {
    return std::nullopt;
  }
  if (source.bos.empty() || source.eos.empty()) return std::nullopt;
  const auto tight_has = [&tight](const char* text) {
    return tight.find(text) != std::string::npos;
  };
  ChatTemplateStrings chat = make(ChatTemplateKind::kMistral, "mistral");
  chat.flags = format::kChatSystemInUser | format::kChatOpenTurnEmpty;
  chat[ChatString::kBegin] = source.bos;
  // The versions differ in their spaces only.
  chat[ChatString::kUserPrefix] = source.has_literal(" [INST] ") ? " [INST] "
                                  : source.has_literal("[INST]") ? "[INST]"
                                                                 : "[INST] ";
  chat[ChatString::kUserSuffix] = source.has_literal(" [/INST]")   ? " [/INST]"
                                  : source.has_literal("[/INST] ") ? "[/INST] "
                                                                   : "[/INST]";
  chat[ChatString::kSystemSuffix] = "\n\n";
  const bool answer_after_space = tight_has("' '+message['content']") || tight_has("' '+content") ||
                                  tight_has("' '+message.content");
  chat[ChatString::kAssistantPrefix] = answer_after_space ? " " : "";
  chat[ChatString::kAssistantSuffix] = tight_has("+' '+eos_token")  ? " " + source.eos
                                       : tight_has("eos_token+' '") ? source.eos + " "
                                                                    : source.eos;
  if (tight_has("content.strip()+' [/INST]'") || tight_has("content'].strip()+' [/INST]'") ||
      tight_has("content']|trim+' [/INST]'") || tight_has("content']|trim+'[/INST]'")) {
    chat.flags |= format::kChatTrim;
  }
  return chat;
}

}  // namespace

std::optional<ChatTemplateStrings> recognise_chat_template(std::string_view jinja,
                                                           std::string_view bos,
                                                           std::string_view eos) {
  const Source source = {jinja, std::string(bos), std::string(eos)};
  const std::string tight = squeezed(jinja);
  if (auto chat = read_llama3(source)) return chat;
  if (auto chat = read_granite(source)) return chat;
  if (auto chat = read_chatml(source, tight)) return chat;
  if (auto chat = read_llama2(source, tight)) return chat;
  if (auto chat = read_mistral(source, tight)) return chat;
  return read_zephyr(source, tight);
}

std::vector<uint8_t> build_chat_section(const ChatTemplateStrings& chat, const std::string& where) {
  ChatTemplateHeader header = {};
  header.kind = static_cast<uint32_t>(chat.kind);
  header.flags = chat.flags;
  std::string text;
  for (size_t i = 0; i < format::kChatStrings; ++i) {
    if (chat.strings[i].size() > format::kMaxChatStringBytes) {
      throw ProgramError(ExitCode::kInvalidInput,
                         where + ": the chat template's texts are too long; at most " +
                             std::to_string(format::kMaxChatStringBytes) + " bytes each");
    }
    header.string_bytes[i] = static_cast<uint32_t>(chat.strings[i].size());
    text += chat.strings[i];
  }
  std::vector<uint8_t> section(sizeof(header) + text.size());
  std::memcpy(section.data(), &header, sizeof(header));
  if (!text.empty()) std::memcpy(section.data() + sizeof(header), text.data(), text.size());
  return section;
}

}  // namespace cria::converter
