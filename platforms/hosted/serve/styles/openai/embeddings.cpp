// /v1/embeddings: its body, and its answers.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/base64.h"
#include "platforms/hosted/serve/embedding_order.h"
#include "platforms/hosted/serve/order_parts.h"
#include "platforms/hosted/serve/styles/openai/openai.h"

namespace cria::hosted {
namespace {

constexpr const char* kInput = "input";

[[noreturn]] void refuse_input(const char* what) {
  throw ApiError(ErrorKind::kInvalidRequest, std::string("input ") + what, kInput);
}

std::vector<uint32_t> tokens_of_ids(const OrderContext& context, const Json& list) {
  std::vector<uint32_t> tokens;
  tokens.reserve(list.size());
  for (const Json& id : list) {
    tokens.push_back(token_id(id, context.model.info().vocab_size, kInput));
  }
  if (tokens.empty()) refuse_input("has an empty list");
  if (tokens.size() > cria_context(context.model.session())) {
    context.text->refuse_length(tokens.size());
  }
  return tokens;
}

std::vector<uint32_t> tokens_of(const OrderContext& context, const Json& text) {
  if (text.is_array()) return tokens_of_ids(context, text);
  if (!text.is_string()) refuse_input("must be a text, a list of texts, or of lists of token ids");
  const auto& whole = text.get_ref<const std::string&>();
  if (whole.empty()) refuse_input("has an empty text");
  return embedding_tokens(context, whole, LongText::kIsRefused, kInput);
}

std::vector<std::vector<uint32_t>> texts_of(const OrderContext& context,
                                            const RequestFields& fields, uint32_t dimensions) {
  const Json* const input = fields.find(kInput);
  if (input == nullptr) refuse_input("is missing");
  const bool has_ids =
      input->is_array() &&
      std::any_of(input->begin(), input->end(), [](const Json& part) { return part.is_number(); });
  if (!input->is_array() || has_ids) return {tokens_of(context, *input)};
  if (input->empty()) refuse_input("is an empty list");
  check_text_count(context, input->size(), dimensions);
  check_text_bytes(*input, context.text->max_request_bytes(), kInput);
  std::vector<std::vector<uint32_t>> texts;
  for (const Json& text : *input) texts.push_back(tokens_of(context, text));
  return texts;
}

enum class Encoding { kFloat, kBase64 };

Encoding encoding_of(const RequestFields& fields) {
  const std::string name = fields.text("encoding_format").value_or("float");
  if (name == "float") return Encoding::kFloat;
  if (name == "base64") return Encoding::kBase64;
  throw ApiError(ErrorKind::kInvalidRequest,
                 "encoding_format is '" + shown(name) + "'; float and base64 are known",
                 "encoding_format");
}

class OpenAiEmbeddingWriter final : public EmbeddingWriter {
 public:
  OpenAiEmbeddingWriter(AnswerOrder order, const TextService* text, Encoding encoding)
      : EmbeddingWriter(std::move(order), text), encoding_(encoding) {}

 private:
  [[nodiscard]] std::string told(std::span<const float> values) const {
    if (encoding_ == Encoding::kFloat) return list_of(values);
    return '"' + base64_of({reinterpret_cast<const uint8_t*>(values.data()), values.size_bytes()}) +
           '"';
  }

  void put_first() override {
    const Sums all = sums();
    put_open(JsonText::object({{"object", "list"},
                               {"model", order_.model},
                               {"usage", JsonText::object({{"prompt_tokens", all.n_prompt},
                                                           {"total_tokens", all.n_prompt}})}}));
    put("\"data\":[");
  }
  void put_choice(size_t i) override {
    put_open(JsonText::object({{"object", "embedding"}, {"index", i}}));
    put("\"embedding\":" + told(embedding(i)) + "}");
  }
  void put_last() override { put("]}"); }

  const Encoding encoding_;
};

template <Encoding kEncoding>
std::unique_ptr<AnswerWriter> make_writer(AnswerOrder order, const TextService* text) {
  return std::make_unique<OpenAiEmbeddingWriter>(std::move(order), text, kEncoding);
}

}  // namespace

AnswerOrder embedding_order(const OrderContext& context, const Json& request,
                            const std::string& /*body*/) {
  const RequestFields fields(request);
  AnswerOrder order;
  read_how_told(context, fields, &order);
  order.make_writer = encoding_of(fields) == Encoding::kFloat ? &make_writer<Encoding::kFloat>
                                                              : &make_writer<Encoding::kBase64>;
  const uint32_t dimensions = embedding_dimensions(context, fields);
  put_texts(context, texts_of(context, fields, dimensions), dimensions, &order);
  return order;
}

}  // namespace cria::hosted
