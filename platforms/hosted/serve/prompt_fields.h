// The prompts of /v1/completions and of llama.cpp's /completion.
#pragma once

#include "platforms/hosted/serve/answer_order.h"

namespace cria::hosted {

// Whether an answer tells its prompt: a text as it was sent, or the text of its tokens.
enum class PromptTold { kNot, kAsSent, kDecoded };

// Adds to an order, which has a writer, what answer says for each prompt. Throws ApiError.
void read_prompts(const OrderContext& context, const RequestFields& fields,
                  const AnswerRequest& answer, PromptTold told, AnswerOrder* order);

}  // namespace cria::hosted
