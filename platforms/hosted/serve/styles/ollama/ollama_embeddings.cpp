// /api/embed and the older /api/embeddings: their bodies and answers.
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/embedding_order.h"
#include "platforms/hosted/serve/styles/ollama/ollama.h"
#include "platforms/hosted/serve/styles/ollama/ollama_fields.h"
#include "platforms/hosted/serve/styles/ollama/ollama_model.h"
#include "platforms/hosted/serve/styles/ollama/rfc3339.h"

namespace cria::hosted {
namespace {

constexpr const char* kInput = "input";

// Several embeddings, and what was counted.
class ManyWriter final : public EmbeddingWriter {
 public:
  using EmbeddingWriter::EmbeddingWriter;

 private:
  void put_first() override {
    put_open(JsonText::object({{"model", order_.model},
                               {"total_duration", ns_of(total_seconds())},
                               {"load_duration", 0},
                               {"prompt_eval_count", sums().n_prompt}}));
    put("\"embeddings\":[");
  }
  void put_choice(size_t i) override { put(list_of(embedding(i))); }
  void put_last() override { put("]}"); }
};

class OneWriter final : public EmbeddingWriter {
 public:
  using EmbeddingWriter::EmbeddingWriter;

 private:
  void put_first() override { put("{\"embedding\":"); }
  void put_choice(size_t i) override { put(list_of(embedding(i))); }
  void put_last() override { put("}"); }
};

template <typename Writer>
std::unique_ptr<AnswerWriter> make_writer(AnswerOrder order, const TextService* text) {
  return std::make_unique<Writer>(std::move(order), text);
}

// What both look at: model, options and keep_alive.
AnswerOrder new_order(const OrderContext& context, const RequestFields& fields,
                      MakeWriter make_writer) {
  AnswerOrder order;
  order.make_writer = make_writer;
  order.form = WireForm::kLines;
  order.model = ollama_model(context, fields);
  (void)fields.object("options");
  (void)ollama_done_reason(fields);
  return order;
}

std::vector<std::string> texts_of(const OrderContext& context, const RequestFields& fields,
                                  uint32_t dimensions) {
  const Json* const input = fields.find(kInput);
  if (input == nullptr) return {};
  if (input->is_string()) {
    if (input->get_ref<const std::string&>().empty()) return {};
    return {input->get<std::string>()};
  }
  if (!input->is_array()) {
    throw ApiError(ErrorKind::kInvalidRequest, "invalid input type", kInput);
  }
  check_text_count(context, input->size(), dimensions);
  check_text_bytes(*input, context.text->max_request_bytes(), kInput);
  std::vector<std::string> texts;
  for (const Json& text : *input) {
    if (!text.is_string()) throw ApiError(ErrorKind::kInvalidRequest, "invalid input type", kInput);
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace

AnswerOrder ollama_embed_order(const OrderContext& context, const Json& request,
                               const std::string& /*body*/) {
  const RequestFields fields(request);
  AnswerOrder order = new_order(context, fields, &make_writer<ManyWriter>);
  const LongText long_text =
      fields.flag("truncate", true) ? LongText::kIsCut : LongText::kIsRefused;
  const uint32_t dimensions = embedding_dimensions(context, fields);
  std::vector<std::vector<uint32_t>> texts;
  for (const std::string& text : texts_of(context, fields, dimensions)) {
    texts.push_back(embedding_tokens(context, text, long_text, kInput));
  }
  if (texts.empty()) {
    order.whole_answer =
        JsonText::object({{"model", order.model}, {"embeddings", JsonText::array()}}).take();
    return order;
  }
  put_texts(context, std::move(texts), dimensions, &order);
  return order;
}

AnswerOrder ollama_embeddings_order(const OrderContext& context, const Json& request,
                                    const std::string& /*body*/) {
  const RequestFields fields(request);
  AnswerOrder order = new_order(context, fields, &make_writer<OneWriter>);
  const std::string prompt = fields.text("prompt").value_or(std::string());
  if (prompt.empty()) {
    order.whole_answer = JsonText::object({{"embedding", JsonText::array()}}).take();
    return order;
  }
  put_texts(context, {embedding_tokens(context, prompt, LongText::kIsCut, "prompt")}, 0, &order);
  return order;
}

}  // namespace cria::hosted
