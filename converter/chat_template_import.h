// Recognises the chat templates that the runtime can apply without a template engine.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quant/chat_template_format.h"

namespace cria::converter {

struct ChatTemplateStrings {
  format::ChatTemplateKind kind;
  std::string name;  // "llama3.2"
  uint32_t flags = 0;
  std::array<std::string, format::kChatStrings> strings;

  [[nodiscard]] std::string& operator[](format::ChatString which) {
    return strings[static_cast<size_t>(which)];
  }
};

// Recognises a template by the control strings in its Jinja text and takes from that text what
// differs between models of one kind. nullopt: none that is known.
//   bos, eos  the texts of those tokens, for templates that name them so; may be empty
[[nodiscard]] std::optional<ChatTemplateStrings> recognise_chat_template(std::string_view jinja,
                                                                         std::string_view bos,
                                                                         std::string_view eos);

// The file section. Throws ProgramError (kInvalidInput) when a text is longer than the format
// allows; where names the template's file in it.
[[nodiscard]] std::vector<uint8_t> build_chat_section(const ChatTemplateStrings& chat,
                                                      const std::string& where);

}  // namespace cria::converter
