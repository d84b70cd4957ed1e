// Finds the stored form of a chat template from what it writes for probe conversations.
#pragma once

#include <string>
#include <vector>

#include "converter/chat_template_render.h"
#include "converter/stored_template.h"

namespace cria::converter {

// The form that fits the probes best. What it cannot say it refuses; whether it is right elsewhere
// is for find_difference (converter/chat_template_prove.h) to tell. Throws std::runtime_error, one
// line, when the template does not even take a user's question, or no form begins to fit it.
//   tokens  the added tokens of the tokenizer: no two strings of the form share one
[[nodiscard]] StoredTemplate derive_template(const TemplateRenderer& renderer,
                                             const std::vector<std::string>& tokens);

}  // namespace cria::converter
