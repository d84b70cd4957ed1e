// What Ollama's requests share.
#pragma once

#include <string>

#include "platforms/hosted/serve/answer_order.h"

namespace cria::hosted {

// model, stream, options, format; gives what think says. What is not there is refused by name.
// Throws ApiError. body is what fields were read from.
cria_thinking read_ollama_fields(const OrderContext& context, const RequestFields& fields,
                                 const std::string& body, AnswerOrder* order,
                                 AnswerRequest* answer);

// What a request without a text ends with: "unload" where keep_alive is 0, else "load". Throws
// ApiError for a keep_alive that is no time.
const char* ollama_done_reason(const RequestFields& fields);

}  // namespace cria::hosted
