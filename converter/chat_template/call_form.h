// How a model writes calls, thinking and text, found from its chat template: from how the template
// writes the calls of earlier answers, and from texts that families name in theirs.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "converter/chat_template/renderer.h"
#include "quant/text/call_format.h"

namespace cria::converter {

// The fields of quant/text/call_format.h.
struct CallForm {
  format::CallKind kind = format::CallKind::kNoCalls;
  uint32_t flags = 0;
  std::array<std::string, format::kCallStrings> strings;

  [[nodiscard]] std::string& operator[](format::CallString which) {
    return strings[static_cast<size_t>(which)];
  }
  [[nodiscard]] const std::string& operator[](format::CallString which) const {
    return strings[static_cast<size_t>(which)];
  }
};

// A list of the format: each text with a zero byte after it.
[[nodiscard]] std::string call_list(const std::vector<std::string>& texts);

// The bytes of ChatString::kCallFormat; empty where the model neither calls nor thinks, or how it
// calls is not known. id_characters: as a StoredTemplate has it. Throws as TemplateRenderer::render
// does.
[[nodiscard]] std::string derive_call_format(const TemplateRenderer& renderer,
                                             uint32_t id_characters);

// Whether such bytes say how the model writes calls.
[[nodiscard]] bool has_calls(const std::string& call_format);

}  // namespace cria::converter
