// Conversations with thinking, tools, calls and results: what a stored form is compared on.
#pragma once

#include <vector>

#include "converter/chat_template/dialogue.h"

namespace cria::converter {

// In order, as programs have them; the same ones every time.
[[nodiscard]] std::vector<Dialogue> tool_dialogues(bool switches_thinking);

// So many tools, calls of one message, arguments of one call: some template counts them.
[[nodiscard]] std::vector<Dialogue> crowded_dialogues(size_t n);

// What conversations are made of: questions, answers and system texts; also thinking, calls and
// results; also tools.
enum class Parts { kTexts, kCalls, kAll };

// Out of order in every way that quant/text/chat_order.h tells, most of them in only one way.
[[nodiscard]] std::vector<Dialogue> disordered_dialogues(Parts parts, bool switches_thinking);

}  // namespace cria::converter
