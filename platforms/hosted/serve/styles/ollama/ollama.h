// Ollama's endpoints: what reads their requests and what writes their answers.
#pragma once

#include <memory>
#include <string>

#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/route.h"

namespace cria::hosted {

// As ReadOrder.
AnswerOrder ollama_chat_order(const OrderContext& context, const Json& request,
                              const std::string& body);
AnswerOrder ollama_generate_order(const OrderContext& context, const Json& request,
                                  const std::string& body);

AnswerOrder ollama_embed_order(const OrderContext& context, const Json& request,
                               const std::string& body);
AnswerOrder ollama_embeddings_order(const OrderContext& context, const Json& request,
                                    const std::string& body);

std::unique_ptr<AnswerWriter> make_ollama_chat_writer(AnswerOrder order, const TextService* text);
std::unique_ptr<AnswerWriter> make_ollama_generate_writer(AnswerOrder order,
                                                          const TextService* text);

// The whole answer of a request without a text: the model is there, or is asked to leave, which it
// does not.
std::string ollama_chat_without_text(const std::string& model, const char* done_reason);
std::string ollama_generate_without_text(const std::string& model, const char* done_reason);

}  // namespace cria::hosted
