// The rules of the tokenizer and chat template sections (docs/model_format.md, parts 6 and 7), for
// the runtime before it uses a file and for the converter before it puts one in place.
//
// Every function returns null, or the rule that does not hold: static text that reads on from
// "the tokenizer: " or "the chat template: ".
#pragma once

#include <cstdint>
#include <span>

#include "quant/text/tokenizer_view.h"

namespace cria {

// Checks every count, offset and token id of the section once, so that nothing that uses it has
// to, and points tokenizer into it. section is 4-byte aligned and outlives tokenizer.
//   vocab_size  the model's: no token may reach it
// Cost: reads the section about twice.
[[nodiscard]] const char* check_tokenizer(std::span<const uint8_t> section, uint32_t vocab_size,
                                          Tokenizer* tokenizer);

// The same for the chat template; chat points into section.
[[nodiscard]] const char* check_chat_template(std::span<const uint8_t> section, ChatTemplate* chat);

// No text of a user may become what ends an answer or frames a message, and an answer ends where
// the template ends it: checks the end tokens of a config that check_config
// (quant/model/model_config.h) accepts, and with chat the tokens of the template.
//   chat  null: the file has none
[[nodiscard]] const char* check_control_tokens(const Tokenizer& tokenizer, const ChatTemplate* chat,
                                               const format::ModelScalars& config);

}  // namespace cria
