// Finds the stored form of a chat template from what it writes for probe conversations.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "converter/chat_template_render.h"
#include "quant/chat_text.h"

namespace cria::converter {

// The stored form (quant/chat_template_format.h) with strings of its own.
struct StoredTemplate {
  uint32_t flags = 0;
  uint32_t trims = 0;
  std::array<std::string, format::kChatStrings> strings;

  [[nodiscard]] std::string& operator[](format::ChatString which) {
    return strings[static_cast<size_t>(which)];
  }
  [[nodiscard]] const std::string& operator[](format::ChatString which) const {
    return strings[static_cast<size_t>(which)];
  }
  // Points to the strings.
  [[nodiscard]] ChatTemplate view() const;
};

// What the stored form makes of a conversation; nullopt: it refuses it.
[[nodiscard]] std::optional<std::string> stored_text(const StoredTemplate& stored,
                                                     const Probe& probe, bool opens_turn,
                                                     const std::string& date = "");

// The form that fits the probes best. What it cannot say it refuses; whether it is right elsewhere
// is for find_difference (converter/chat_template_prove.h) to tell. Throws std::runtime_error, one
// line, when the template does not even take a user's question, or no form begins to fit it.
//   tokens  the added tokens of the tokenizer: no two strings of the form share one
[[nodiscard]] StoredTemplate derive_template(const TemplateRenderer& renderer,
                                             const std::vector<std::string>& tokens);

// Whether form and template agree: the same text, or the form refuses the conversation.
[[nodiscard]] bool agrees(const StoredTemplate& stored, const TemplateRenderer& renderer,
                          const Probe& probe, bool opens_turn,
                          const CalendarDate& date = kTemplateDate);

}  // namespace cria::converter
