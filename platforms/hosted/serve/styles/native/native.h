// llama.cpp's own endpoints: what reads their requests and what writes their answers.
#pragma once

#include <memory>
#include <string>

#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/route.h"

namespace cria::hosted {

// As ReadOrder.
AnswerOrder native_order(const OrderContext& context, const Json& request, const std::string& body);

std::unique_ptr<AnswerWriter> make_native_writer(AnswerOrder order, const TextService* text);

// Texts and tokens, as Route::of_text.
std::string tokenize(const Service& service, const Json& request, const std::string& body);
std::string detokenize(const Service& service, const Json& request, const std::string& body);
std::string apply_template(const Service& service, const Json& request, const std::string& body);

}  // namespace cria::hosted
