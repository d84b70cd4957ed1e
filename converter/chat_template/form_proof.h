// Compares the stored form of a chat template with the template itself on generated conversations.
#pragma once

#include <optional>
#include <string>

#include "converter/chat_template/form_derivation.h"

namespace cria::converter {

inline constexpr size_t kProofConversations = 400;

// Renders conversations both ways, the same ones every time. kProofConversations of texts, each
// with the assistant's turn opened and without, and the first of them with other dates: roles in
// turns and not, with and without system texts, contents with white space, several scripts, control
// words of templates, nothing, and much text. Then a hundred more with the texts that the template
// itself may look for, and conversations as long as each of its numbers. with_tools: also with
// thinking, tools, calls and results. Returns the first for which the form gives a text that is not
// the template's, though nothing is odd about it; nullopt: none. What differs where messages are in
// an unusual order (quant/text/chat_order.h), or contents blank, the form is made to refuse.
[[nodiscard]] std::optional<Dialogue> prove_form(const TemplateRenderer& renderer, bool with_tools,
                                                 StoredTemplate* stored);

}  // namespace cria::converter
