// The chat templates that --chat-template takes by name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "quant/chat_template_format.h"

namespace cria::converter {

struct NamedTemplate {
  uint32_t kind;  // of format::kChatTemplateNames
  const char* jinja;
};

// nullopt: none has this name.
[[nodiscard]] std::optional<NamedTemplate> find_named_template(std::string_view name);

// "chatml, llama2, ...", for people.
[[nodiscard]] std::string named_templates();

}  // namespace cria::converter
