// What llama.cpp's server has besides OpenAI's endpoints.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/http_text.h"
#include "platforms/hosted/serve/metrics.h"
#include "platforms/hosted/serve/page.h"
#include "platforms/hosted/serve/styles/native/native.h"

namespace cria::hosted {
namespace {

Reply page(const Service&, const RequestHead&) { return page_reply(); }

Reply health(const Service&, const RequestHead&) {
  return json_reply(JsonText::object({{"status", "ok"}}));
}

std::string token_or_empty(const OrderContext& context, uint32_t token) {
  return token == CRIA_NO_TOKEN ? std::string() : context.text->token_text(token);
}

Reply props(const Service& service, const RequestHead&) {
  const OrderContext& context = service.context;
  const cria_sampling& s = context.usual;
  const MemoryBudget& m = service.budget;
  const JsonText params = JsonText::object({{"temperature", s.temperature},
                                            {"top_k", s.top_k},
                                            {"top_p", s.top_p},
                                            {"min_p", s.min_p},
                                            {"repeat_penalty", s.repeat_penalty},
                                            {"frequency_penalty", s.frequency_penalty},
                                            {"presence_penalty", s.presence_penalty},
                                            {"seed", -1},
                                            {"max_tokens", -1},
                                            {"n_predict", -1},
                                            {"stream", false}});
  const JsonText memory = JsonText::object({{"model", m.model},
                                            {"sessions", m.sessions},
                                            {"workspaces", m.workspaces},
                                            {"json", m.json},
                                            {"total", m.total()},
                                            {"in_place", m.in_place}});
  return json_reply(JsonText::object(
      {{"default_generation_settings",
        JsonText::object({{"n_ctx", cria_context(context.model.session())}, {"params", params}})},
       {"total_slots", context.model.sessions().size()},
       {"model_alias", context.model_name},
       {"model_path", context.model.path()},
       {"modalities", JsonText::object({{"vision", false}, {"audio", false}})},
       {"chat_template", service.chat_template},
       {"has_chat", context.text->has_chat()},
       {"bos_token", token_or_empty(context, context.model.info().bos_token)},
       {"eos_token", token_or_empty(context, service.end_token)},
       {"build_info", std::string("cria ") + cria_version()},
       {"memory", memory}}));
}

Reply slots(const Service& service, const RequestHead& head) {
  const std::vector<SessionStatus> sessions = service.context.engine->sessions();
  const bool has_free = std::any_of(sessions.begin(), sessions.end(),
                                    [](const SessionStatus& s) { return !s.is_processing; });
  if (query_has(head.query, "fail_on_no_slot", "1") && !has_free) {
    throw ApiError(ErrorKind::kUnavailable, "no slot available");
  }
  JsonText list = JsonText::array();
  for (size_t id = 0; id < sessions.size(); ++id) {
    const SessionStatus& s = sessions[id];
    const int64_t task = s.request == 0 ? -1 : static_cast<int64_t>(s.request);
    list.push_back(JsonText::object({{"id", id},
                                     {"id_task", task},
                                     {"n_ctx", s.n_context},
                                     {"is_processing", s.is_processing},
                                     {"n_past", s.n_used},
                                     {"n_prompt", s.n_prompt},
                                     {"n_read", s.n_read},
                                     {"n_decoded", s.n_drawn}}));
  }
  return json_reply(std::move(list));
}

Reply metrics(const Service& service, const RequestHead&) {
  if (!service.has_metrics) {
    throw ApiError(ErrorKind::kNotSupported, "this server has no metrics; start it with --metrics");
  }
  Reply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body =
      metrics_text(service.context.engine->counts(), service.context.model.sessions().size(),
                   service.budget.total(), n_stderr_lines_dropped());
  return reply;
}

constexpr Route kRoutes[] = {
    {"GET", "/index.html", Key::kNotNeeded, &page, nullptr, nullptr},
    {"GET", "/health", Key::kNotNeeded, &health, nullptr, nullptr},
    {"GET", "/v1/health", Key::kNotNeeded, &health, nullptr, nullptr},
    {"GET", "/props", Key::kNeeded, &props, nullptr, nullptr},
    {"GET", "/slots", Key::kNeeded, &slots, nullptr, nullptr},
    {"GET", "/metrics", Key::kNeeded, &metrics, nullptr, nullptr},
    {"POST", "/tokenize", Key::kNeeded, nullptr, &tokenize, nullptr},
    {"POST", "/detokenize", Key::kNeeded, nullptr, &detokenize, nullptr},
    {"POST", "/apply-template", Key::kNeeded, nullptr, &apply_template, nullptr},
    {"POST", "/completion", Key::kNeeded, nullptr, nullptr, &native_order},
    {"POST", "/completions", Key::kNeeded, nullptr, nullptr, &native_order},
};

}  // namespace

std::span<const Route> native_routes() { return kRoutes; }

}  // namespace cria::hosted
