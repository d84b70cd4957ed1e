// A chat template as the file stores it, with strings of its own, and what it says.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "converter/chat_template_render.h"
#include "quant/chat_template_format.h"
#include "quant/chat_text.h"

namespace cria::converter {

// The fields of quant/chat_template_format.h.
struct StoredTemplate {
  uint32_t flags = 0;
  uint32_t trims = 0;
  std::array<std::string, format::kChatStrings> strings;
  // The template writes the date in a way that the form cannot: kTemplateDate stays in the strings.
  bool has_fixed_date = false;

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

// Whether form and template agree: the same text, or the form refuses the conversation.
[[nodiscard]] bool agrees(const StoredTemplate& stored, const TemplateRenderer& renderer,
                          const Probe& probe, bool opens_turn,
                          const CalendarDate& date = kTemplateDate);

}  // namespace cria::converter
