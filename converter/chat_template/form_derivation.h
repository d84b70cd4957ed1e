// Finds the stored form (quant/text/chat_template_format.h) of a chat template by rendering
// conversations whose contents are marks, and taking each joint as it was printed. What differs
// between places gets those places into its rules; what no place tells apart, or the template
// refuses, has no rule. Whether the form is right is another question: form_proof.h.
#pragma once

#include "converter/chat_template/stored_form.h"

namespace cria::converter {

// with_tools: with thinking, calls, results and tools; else these are refused.
// Throws std::runtime_error, one line, for what writes no conversation.
[[nodiscard]] StoredTemplate derive_template(const TemplateRenderer& renderer, bool with_tools);

}  // namespace cria::converter
