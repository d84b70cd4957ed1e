// The members that every request for answers shares.
#pragma once

#include <string_view>

#include "platforms/hosted/serve/answer_order.h"

namespace cria::hosted {

// How tokens are drawn, how many, and what ends them. Throws ApiError.
void read_sampling(const OrderContext& context, const RequestFields& fields,
                   AnswerRequest* request);

// Whether end tokens are forbidden: they are among the biases then.
bool ignores_end(const RequestFields& fields);

// Prompts that fit the context, or an ApiError.
void check_prompt(const OrderContext& context, const Encoded& prompt);

// Has the answer be a document of the schema, which is JSON; param names it.
void set_schema(const OrderContext& context, const RequestFields& fields, std::string_view schema,
                const char* param, AnswerRequest* request);

// Refuses by name what would change an answer and is not there.
void refuse_unsupported(const RequestFields& fields);

}  // namespace cria::hosted
