// What is unusual about the order of a conversation. A form says which of these its template writes
// otherwise than the form; such conversations are refused.
#pragma once

#include <cstdint>

#include "quant/text/chat_text.h"

namespace cria {

// Bits of kChatRefuses that the conversation would need; 0: it is orderly. That is: a system text
// maybe, then questions, each with rounds of calls and their results and at last an answer. It may
// end anywhere but between results. Cost: one pass over the messages, and each of up to 2048 calls
// is compared with those before it; ids of more calls count as shared.
[[nodiscard]] uint32_t chat_disorder(const Conversation& conversation);

// Why a conversation with one of these bits is refused, as chat_refusal says it.
[[nodiscard]] const char* disorder_refusal(uint32_t disorder);

}  // namespace cria
