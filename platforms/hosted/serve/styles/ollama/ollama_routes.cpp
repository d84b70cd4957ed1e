// Ollama's endpoints, and the address that browsers and its clients both begin with.
#include <string>
#include <string_view>

#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/page.h"
#include "platforms/hosted/serve/styles/ollama/ollama.h"
#include "platforms/hosted/serve/styles/ollama/ollama_model.h"

namespace cria::hosted {
namespace {

// Whose API this is; programs ask for a least version.
constexpr const char* kOllamaVersion = "0.12.0";

// A browser asks for HTML by name.
Reply root(const Service&, const RequestHead& head) {
  Reply reply;
  if (head.accept.find("text/html") != std::string::npos) {
    reply = page_reply();
  } else {
    reply.content_type = "text/plain; charset=utf-8";
    reply.body = "Ollama is running";
  }
  reply.headers.push_back({"Vary", "Accept"});
  return reply;
}

Reply version(const Service&, const RequestHead&) {
  return json_reply(JsonText::object({{"version", kOllamaVersion}}));
}

Reply list_of(const JsonText& model) {
  JsonText models = JsonText::array();
  models.push_back(model);
  return json_reply(JsonText::object({{"models", models}}));
}

Reply tags(const Service& service, const RequestHead&) { return list_of(ollama_listed(service)); }

Reply ps(const Service& service, const RequestHead&) { return list_of(ollama_loaded(service)); }

std::string show(const Service& service, const Json& request, const std::string&) {
  (void)ollama_model(service.context, RequestFields(request));
  return ollama_shown(service).take();
}

[[noreturn]] void refuse_to_change(const Service& service) {
  throw ApiError(ErrorKind::kNotSupported, "this server has one model, '" +
                                               ollama_name(service.context.model_name) +
                                               "', and cannot load or change others");
}

// The model that is there need not be fetched; a stream of one line is a line.
std::string pull(const Service& service, const Json& request, const std::string&) {
  try {
    (void)ollama_model(service.context, RequestFields(request));
  } catch (const ApiError& error) {
    if (error.kind() == ErrorKind::kNotFound) refuse_to_change(service);
    throw;
  }
  return JsonText::object({{"status", "success"}}).take() + "\n";
}

Reply refuse_change(const Service& service, const RequestHead&) { refuse_to_change(service); }

constexpr Route kRoutes[] = {
    {"GET", "/", Key::kNotNeeded, &root, nullptr, nullptr},
    {"GET", "/api/version", Key::kNotNeeded, &version, nullptr, nullptr},
    {"GET", "/api/tags", Key::kNotNeeded, &tags, nullptr, nullptr},
    {"GET", "/api/ps", Key::kNeeded, &ps, nullptr, nullptr},
    {"POST", "/api/show", Key::kNeeded, nullptr, &show, nullptr},
    {"POST", "/api/chat", Key::kNeeded, nullptr, nullptr, &ollama_chat_order},
    {"POST", "/api/generate", Key::kNeeded, nullptr, nullptr, &ollama_generate_order},
    {"POST", "/api/embed", Key::kNeeded, nullptr, nullptr, &ollama_embed_order},
    {"POST", "/api/embeddings", Key::kNeeded, nullptr, nullptr, &ollama_embeddings_order},
    {"POST", "/api/pull", Key::kNeeded, nullptr, &pull, nullptr},
    {"POST", "/api/push", Key::kNeeded, &refuse_change, nullptr, nullptr},
    {"POST", "/api/create", Key::kNeeded, &refuse_change, nullptr, nullptr},
    {"POST", "/api/copy", Key::kNeeded, &refuse_change, nullptr, nullptr},
    {"DELETE", "/api/delete", Key::kNeeded, &refuse_change, nullptr, nullptr},
};

}  // namespace

std::span<const Route> ollama_routes() { return kRoutes; }

}  // namespace cria::hosted
