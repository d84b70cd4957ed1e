// OpenAI's endpoints, and the list of models.
#include <optional>

#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/http_text.h"
#include "platforms/hosted/serve/route.h"
#include "platforms/hosted/serve/styles/openai/openai.h"

namespace cria::hosted {
namespace {

// What a model's name stands after, with slashes of either kind in it.
constexpr const char* kModelPath = "/v1/models/";

JsonText model_object(const Service& service) {
  const cria_model_info& info = service.context.model.info();
  const JsonText meta = JsonText::object({{"n_vocab", info.vocab_size},
                                          {"n_ctx_train", info.max_context},
                                          {"n_embd", info.d_model},
                                          {"n_params", info.n_parameters},
                                          {"size", info.file_bytes}});
  return JsonText::object({{"id", service.context.model_name},
                           {"object", "model"},
                           {"created", service.started_s},
                           {"owned_by", "cria"},
                           {"meta", meta}});
}

Reply models(const Service& service, const RequestHead&) {
  JsonText list = JsonText::array();
  list.push_back(model_object(service));
  return json_reply(JsonText::object({{"object", "list"}, {"data", list}}));
}

Reply model(const Service& service, const RequestHead& head) {
  if (decoded_behind(kModelPath, head.path) == service.context.model_name) {
    return json_reply(model_object(service));
  }
  throw ApiError(ErrorKind::kNotFound, "there is no model of this name", "model");
}

constexpr Route kRoutes[] = {
    {"GET", "/models", Key::kNotNeeded, &models, nullptr, nullptr},
    {"GET", "/v1/models", Key::kNotNeeded, &models, nullptr, nullptr},
    {"GET", kModelPath, Key::kNotNeeded, &model, nullptr, nullptr},
    {"POST", "/v1/chat/completions", Key::kNeeded, nullptr, nullptr, &chat_order},
    {"POST", "/chat/completions", Key::kNeeded, nullptr, nullptr, &chat_order},
    {"POST", "/v1/completions", Key::kNeeded, nullptr, nullptr, &text_order},
    {"POST", "/v1/responses", Key::kNeeded, nullptr, nullptr, &response_order},
    {"POST", "/responses", Key::kNeeded, nullptr, nullptr, &response_order},
    {"POST", "/v1/embeddings", Key::kNeeded, nullptr, nullptr, &embedding_order},
};

}  // namespace

std::span<const Route> openai_routes() { return kRoutes; }

}  // namespace cria::hosted
