// Compares the stored form of a chat template with the template itself on generated conversations.
#pragma once

#include <optional>
#include <string>

#include "converter/chat_template_derive.h"

namespace cria::converter {

inline constexpr size_t kProofConversations = 400;

// A conversation, for people: short, on one line, no control characters.
[[nodiscard]] std::string shown_probe(const Probe& probe);

// Renders kProofConversations both ways, each with the assistant's turn opened and without, and the
// first of them with other dates. The same conversations every time: roles in turns and not, with
// and without system texts, contents with white space, several scripts, control words of templates,
// nothing, and much text. Then a hundred more with the texts that the template itself may look for,
// and conversations as long as each of its numbers. Returns the first for which the form gives a
// text that is not the template's; nullopt: none.
[[nodiscard]] std::optional<Probe> find_difference(const StoredTemplate& stored,
                                                   const TemplateRenderer& renderer);

}  // namespace cria::converter
