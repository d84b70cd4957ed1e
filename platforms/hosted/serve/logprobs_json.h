// What answers tell of the logprobs of their tokens.
#pragma once

#include <string>
#include <vector>

#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/serve/json_text.h"
#include "platforms/hosted/serve/text_service.h"

namespace cria::hosted {

// JSON has no infinity.
float told_logprob(float logprob);

// A row of a token with its likeliest ones, as OpenAI's chats have it; of each of some.
JsonText logprobs_of(const TextService& text, const DrawnToken& drawn);
JsonText logprobs_of(const TextService& text, const std::vector<DrawnToken>& tokens);
// The likeliest tokens' logprobs by their texts, as OpenAI's completions have it.
JsonText top_of(const TextService& text, const DrawnToken& drawn);

}  // namespace cria::hosted
