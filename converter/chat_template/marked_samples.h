// Conversations whose contents are marks that no template writes or looks for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "converter/chat_template/dialogue.h"

namespace cria::converter {

// Messages by letters: S system, U user, B user who says nothing, A answer, H one that thought;
// calls of an answer: c one, C two, t text before one, h thinking before one, x both, y text
// before two; R a result of the next call that has none. Contents have white space around them.
[[nodiscard]] Dialogue marked_dialogue(std::string_view letters);

// The mark without that white space.
[[nodiscard]] std::string mark_of(char letter, size_t message);

// What stands before and after a mark: more newlines than a template writes in a row, which it may
// take away, and white space of another kind.
inline constexpr std::string_view kBeforeMark = "\n\n\n\n\n\n\n\v";
inline constexpr std::string_view kBehindMark = "\t\n\n\n\n\n\n\n";

// A tool whose texts are marks, of its number.
[[nodiscard]] std::string marked_tool(size_t number);

// Conversations of texts in which every joint of three roles appears, in turns and not.
[[nodiscard]] std::vector<Dialogue> text_samples(bool switches_thinking);
// Those with thinking, calls and results.
[[nodiscard]] std::vector<Dialogue> tool_samples(bool switches_thinking);

}  // namespace cria::converter
