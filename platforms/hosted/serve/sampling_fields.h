// The members that every request for answers shares.
#pragma once

#include <initializer_list>
#include <string_view>

#include "platforms/hosted/serve/answer_order.h"

namespace cria::hosted {

// How tokens are drawn, and stop strings; of a request or of an object inside it. Throws ApiError.
template <typename Name>
void read_draws(const OrderContext& context, const BasicFields<Name>& fields,
                AnswerRequest* request);

// The same, how many, and what else changes them. Throws ApiError.
void read_sampling(const OrderContext& context, const RequestFields& fields,
                   AnswerRequest* request);

// Whether end tokens are forbidden: they are among the biases then.
bool ignores_end(const RequestFields& fields);

// Prompts that fit the context, or an ApiError.
void check_prompt(const OrderContext& context, const Encoded& prompt);

// Has the answer be a document of the schema, which is JSON; param names it.
void set_schema(const OrderContext& context, const RequestFields& fields, std::string_view schema,
                const char* param, AnswerRequest* request);

// Refuses by name those that are there and not empty.
void refuse_present(const RequestFields& fields, std::initializer_list<MemberName> names);

// Refuses by name what would change an answer and is not supported.
void refuse_unsupported(const RequestFields& fields);
// Of requests without a conversation.
void refuse_tools(const RequestFields& fields);

}  // namespace cria::hosted
