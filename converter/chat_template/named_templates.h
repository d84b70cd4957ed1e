// The chat templates that --chat-template takes by name. They are functions here, not Jinja: they
// work where there is no Python.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "converter/chat_template/renderer.h"
#include "quant/text/chat_template_format.h"

namespace cria::converter {

// Its kind, of format::kChatTemplateNames; nullopt: none has this name.
[[nodiscard]] std::optional<uint32_t> find_named_template(std::string_view name);

// Whether the template writes a date.
[[nodiscard]] bool named_template_has_date(uint32_t kind);

// What the template of a kind from format::kChatKindNamed on makes of a conversation.
//   date  as kDateStringFormat writes it
[[nodiscard]] Rendering render_named_template(uint32_t kind, const TokenTexts& tokens,
                                              const Probe& probe, bool opens_turn,
                                              std::string_view date);

// "chatml, llama2, ...", for people.
[[nodiscard]] std::string named_templates();

}  // namespace cria::converter
