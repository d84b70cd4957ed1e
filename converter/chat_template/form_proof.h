// Compares the stored form of a chat template with the template itself on generated conversations.
#pragma once

#include <optional>
#include <string>

#include "converter/chat_template/form_derivation.h"

namespace cria::converter {

inline constexpr size_t kProofConversations = 400;

// Renders kProofConversations both ways, each with the assistant's turn opened and without, and the
// first of them with other dates. The same conversations every time: roles in turns and not, with
// and without system texts, contents with white space, several scripts, control words of templates,
// nothing, and much text. Then a hundred more with the texts that the template itself may look for,
// and conversations as long as each of its numbers. Returns the first for which the form gives a
// text that is not the template's; nullopt: none.
[[nodiscard]] std::optional<Dialogue> find_difference(const StoredTemplate& stored,
                                                      const TemplateRenderer& renderer);

// The same for conversations with thinking, tools, calls and results.
[[nodiscard]] std::optional<Dialogue> find_difference_with_tools(const StoredTemplate& stored,
                                                                 const TemplateRenderer& renderer);

}  // namespace cria::converter
