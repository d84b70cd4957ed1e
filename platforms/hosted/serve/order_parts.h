// What chat and completion requests are read with alike.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/conversation_fields.h"

namespace cria::hosted {

// model, stream, stream_options, timings_per_token.
void read_how_told(const OrderContext& context, const RequestFields& fields, AnswerOrder* order);

// CRIA_ENCODE_PARSE, as llama.cpp has it, or 0 where a request says that its text is text.
uint32_t flag_to_parse(const RequestFields& fields);

inline constexpr std::string_view kAnyObject = R"({"type":"object"})";

// Throws ApiError where strict is no flag or description no text; nothing else comes of them.
void check_schema_words(const Fields& fields);

// Says that the member param asks for a form of answer that is not known; type may be empty.
[[noreturn]] void refuse_format(const char* param, const std::string& type);

// The text of a schema, of a member that was parsed, as the body has it.
std::string_view text_of_schema(const std::string& body,
                                std::initializer_list<std::string_view> names);

// response_format, and llama.cpp's json_schema. body is what fields were read from: the order in
// which a schema names its properties is that of documents.
void read_format(const OrderContext& context, const RequestFields& fields, const std::string& body,
                 AnswerRequest* request);

// Checks a prompt and adds it to what is asked.
void put_prompt(const OrderContext& context, Encoded prompt, AnswerRequest answer,
                AnswerOrder* order);
// Of a conversation, with how much of it comes before the first question's text. Its answers are
// told in parts where the model writes them so.
void put_conversation(const OrderContext& context, const RequestedConversation& asked,
                      AnswerRequest answer, AnswerOrder* order);

// Of an order that is complete: refuses what asks for more tokens than an answer holds.
void check_answer_size(const OrderContext& context, const AnswerOrder& order);

}  // namespace cria::hosted
