// Texts and tokens, as llama.cpp's endpoints have them.
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/conversation_fields.h"
#include "platforms/hosted/serve/order_parts.h"
#include "platforms/hosted/serve/styles/native/native.h"

namespace cria::hosted {
namespace {

std::string piece_of(const TextService& text, uint32_t token) {
  const std::string bytes = text.token_bytes(token);
  const JsonText piece =
      bytes == text.token_text(token)
          ? JsonText(bytes)
          : JsonText::array(bytes, [](char c) { return static_cast<unsigned char>(c); });
  return JsonText::object({{"id", token}, {"piece", piece}}).take();
}

}  // namespace

std::string tokenize(const Service& service, const Json& request, const std::string&) {
  TextService& text = *service.context.text;
  const RequestFields fields(request);
  const Json* const content = fields.find("content");
  const bool with_pieces = fields.flag("with_pieces", false);
  const uint32_t flags = flag_to_parse(fields);
  const bool adds_special = fields.flag("add_special", false);
  std::vector<uint32_t> tokens;
  const auto put = [&](const Json& part, bool is_first) {
    if (!part.is_string()) {
      tokens.push_back(token_id(part, service.context.model.info().vocab_size, "content"));
      return;
    }
    const uint32_t special = adds_special && is_first ? +CRIA_ENCODE_SPECIAL : 0;
    const Encoded encoded = text.encode(part.get<std::string>(), flags | special);
    if (encoded.is_counted) {
      throw ApiError(ErrorKind::kInvalidRequest,
                     text_of("content: a text of more than %zu bytes is not split into tokens; "
                             "send it in parts",
                             text.max_text_bytes()),
                     "content");
    }
    tokens.insert(tokens.end(), encoded.tokens.begin(), encoded.tokens.end());
  };
  if (content != nullptr && content->is_array()) {
    check_text_bytes(*content, text.max_request_bytes(), "content");
    for (const Json& part : *content) put(part, &part == &content->front());
  } else if (content != nullptr) {
    if (!content->is_string()) {
      throw ApiError(ErrorKind::kInvalidRequest,
                     "content must be a text or a list of texts and token ids", "content");
    }
    put(*content, true);
  }
  // There may be a token for each byte of a long text: as objects they would take much more memory.
  std::unordered_map<uint32_t, std::string> pieces;  // most are there many times
  const auto known_piece = [&](uint32_t token) -> const std::string& {
    std::string& piece = pieces[token];
    if (piece.empty()) piece = piece_of(text, token);
    return piece;
  };
  std::string body = R"({"tokens":[)";
  for (const uint32_t token : tokens) {
    if (!body.ends_with('[')) body += ',';
    body += with_pieces ? known_piece(token) : std::to_string(token);
    check_token_bytes(body.size());
  }
  return body + "]}";
}

std::string detokenize(const Service& service, const Json& request, const std::string&) {
  const Json* const list = RequestFields(request).list("tokens");
  std::vector<uint32_t> tokens;
  if (list != nullptr) {
    for (const Json& each : *list) {
      tokens.push_back(token_id(each, service.context.model.info().vocab_size, "tokens"));
    }
  }
  return JsonText::object({{"content", service.context.text->decode(tokens, true)}}).take();
}

std::string apply_template(const Service& service, const Json& request, const std::string& body) {
  const RequestFields fields(request);
  RequestedConversation asked = read_conversation(service.context, fields, body);
  asked.text.thinking = read_thinking(fields, fields.text("reasoning_effort"));
  return JsonText::object({{"prompt", service.context.text->chat_text(asked.text, asked.members)}})
      .take();
}

}  // namespace cria::hosted
