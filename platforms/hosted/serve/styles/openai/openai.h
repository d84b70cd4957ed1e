// OpenAI's chats, completions, responses and embeddings: what reads them and what writes them.
#pragma once

#include <memory>
#include <string>

#include "platforms/hosted/serve/answer_order.h"

namespace cria::hosted {

// As ReadOrder.
AnswerOrder chat_order(const OrderContext& context, const Json& request, const std::string& body);
AnswerOrder text_order(const OrderContext& context, const Json& request, const std::string& body);
AnswerOrder response_order(const OrderContext& context, const Json& request,
                           const std::string& body);

AnswerOrder embedding_order(const OrderContext& context, const Json& request,
                            const std::string& body);

std::unique_ptr<AnswerWriter> make_chat_writer(AnswerOrder order, const TextService* text);
std::unique_ptr<AnswerWriter> make_text_writer(AnswerOrder order, const TextService* text);
std::unique_ptr<AnswerWriter> make_response_writer(AnswerOrder order, const TextService* text);

}  // namespace cria::hosted
