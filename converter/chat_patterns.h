// How a chat template writes a call, a tool's result and a tool: found by rendering marked ones.
#pragma once

#include "converter/stored_template.h"

namespace cria::converter {

// Fills in the patterns and styles that are found; what is not found stays empty.
void find_patterns(const TemplateRenderer& renderer, StoredTemplate* stored);

}  // namespace cria::converter
