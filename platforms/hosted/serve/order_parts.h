// What chat and completion requests are read with alike.
#pragma once

#include <string>

#include "platforms/hosted/serve/answer_order.h"

namespace cria::hosted {

// model, stream, stream_options, timings_per_token.
void read_how_told(const OrderContext& context, const Fields& fields, AnswerOrder* order);

// response_format, and llama.cpp's json_schema. body is what fields were read from: the order in
// which a schema names its properties is that of documents.
void read_format(const OrderContext& context, const Fields& fields, const std::string& body,
                 AnswerRequest* request);

}  // namespace cria::hosted
