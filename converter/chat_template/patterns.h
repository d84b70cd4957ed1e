// How a chat template writes a call, a tool's result and a tool: found by rendering marked ones.
#pragma once

#include "converter/chat_template/stored_form.h"

namespace cria::converter {

// Fills in the patterns and styles that are found; what is not found stays empty.
void find_patterns(const TemplateRenderer& renderer, StoredTemplate* stored);

}  // namespace cria::converter
