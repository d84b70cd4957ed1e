#include "platforms/hosted/serve/api.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <unordered_map>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/http_text.h"
#include "platforms/hosted/serve/metrics.h"
#include "platforms/hosted/serve/page.h"
#include "platforms/hosted/serve/parsed_json.h"

namespace cria::hosted {
namespace {

Reply json_reply(JsonText json) {
  Reply reply;
  reply.body = json.take();
  return reply;
}

uint32_t first_end_token(const cria_model* model) {
  for (uint32_t token = 0; token < cria_vocab_size(model); ++token) {
    if (cria_is_end_token(model, token) != 0) return token;
  }
  return CRIA_NO_TOKEN;
}

constexpr std::chrono::milliseconds kMemoryPause{10};
constexpr long kMostInHand = 1;

void fail_for_memory() { throw std::bad_alloc(); }

// An escaped slash separates nothing: no path that is served has one.
std::string decoded_path(std::string_view path) {
  const std::string decoded = percent_decoded(path).value_or(std::string());
  const bool has_escaped =
      std::count(decoded.begin(), decoded.end(), '/') != std::count(path.begin(), path.end(), '/');
  return has_escaped ? std::string() : decoded;
}

// What stands behind "/v1/models/", where a name may have slashes of either kind.
std::optional<std::string> model_name_in(std::string_view path) {
  constexpr std::string_view kModels = "/v1/models/";
  constexpr int kSlashes = 3;
  size_t n = 0;
  for (int i = 0; i < kSlashes; ++i) {
    const size_t slash = path.find('/', n);
    if (slash == std::string_view::npos) return std::nullopt;
    n = slash + 1;
  }
  if (decoded_path(path.substr(0, n)) != kModels) return std::nullopt;
  return percent_decoded(path.substr(n));
}

}  // namespace

const Api::Route Api::kRoutes[] = {
    {"GET", "/", Key::kNotNeeded, &Api::page, nullptr, nullptr},
    {"GET", "/index.html", Key::kNotNeeded, &Api::page, nullptr, nullptr},
    {"GET", "/health", Key::kNotNeeded, &Api::health, nullptr, nullptr},
    {"GET", "/v1/health", Key::kNotNeeded, &Api::health, nullptr, nullptr},
    {"GET", "/models", Key::kNotNeeded, &Api::models, nullptr, nullptr},
    {"GET", "/v1/models", Key::kNotNeeded, &Api::models, nullptr, nullptr},
    {"GET", "/props", Key::kNeeded, &Api::props, nullptr, nullptr},
    {"GET", "/slots", Key::kNeeded, &Api::slots, nullptr, nullptr},
    {"GET", "/metrics", Key::kNeeded, &Api::metrics, nullptr, nullptr},
    {"POST", "/tokenize", Key::kNeeded, nullptr, &Api::tokenize, nullptr},
    {"POST", "/detokenize", Key::kNeeded, nullptr, &Api::detokenize, nullptr},
    {"POST", "/apply-template", Key::kNeeded, nullptr, &Api::apply_template, nullptr},
    {"POST", "/v1/chat/completions", Key::kNeeded, nullptr, nullptr, &chat_order},
    {"POST", "/chat/completions", Key::kNeeded, nullptr, nullptr, &chat_order},
    {"POST", "/v1/completions", Key::kNeeded, nullptr, nullptr, &text_order},
    {"POST", "/completion", Key::kNeeded, nullptr, nullptr, &native_order},
    {"POST", "/completions", Key::kNeeded, nullptr, nullptr, &native_order},
};

const Api::Route* Api::route_of(const RequestHead& head, std::string* other_methods) {
  const std::string method = head.method == "HEAD" ? "GET" : head.method;
  // A model by its name is one of the list.
  const std::string path = model_name_in(head.path) ? "/v1/models" : decoded_path(head.path);
  for (const Route& route : kRoutes) {
    if (path != route.path) continue;
    if (method == route.method) return &route;
    *other_methods = std::string(route.method) == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
  }
  return nullptr;
}

Api::Api(const ModelSession& model, Engine* engine, TextService* text, GuardOptions guard,
         ApiOptions options)
    : model_(model),
      engine_(engine),
      text_(text),
      guard_(std::move(guard)),
      options_(std::move(options)),
      context_{
          .model = model,
          .text = text,
          .engine = engine,
          .usual = options_.usual,
          .model_name = options_.model_name,
          .n_sessions = static_cast<uint32_t>(model.sessions().size()),
          .most_prompts = static_cast<uint32_t>(model.sessions().size()) + options_.max_waiting},
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      end_token_(first_end_token(model.model())) {}

std::vector<HeaderField> Api::headers_for(const RequestHead& head) {
  return guard_.cross_origin_headers(head);
}

bool Api::accepts(const RequestHead& head, Reply* refusal) {
  try {
    guard_.check_site(head);
    if (head.method == "OPTIONS") return true;
    std::string others;
    const Route* const route = route_of(head, &others);
    if (route == nullptr || route->key == Key::kNeeded) guard_.check_key(head);
    if (route == nullptr && others.empty()) {
      throw ApiError(ErrorKind::kNotFound, "there is nothing at this path");
    }
    if (route == nullptr) {
      *refusal =
          ApiError(ErrorKind::kMethodNotAllowed, "this path has another method: " + others).reply();
      refusal->headers.push_back({"Allow", others});
      return false;
    }
    const bool is_encoded = !head.content_encoding.empty() && head.content_encoding != "identity";
    if (is_encoded || head.content_type.starts_with("multipart/")) {
      throw ApiError(ErrorKind::kUnsupportedMedia, "bodies are JSON, not encoded");
    }
    return true;
  } catch (const ApiError& error) {
    *refusal = error.reply();
    return false;
  }
}

// What the network thread is to do.
std::function<void()> Api::answer_to(const Route& route, const std::string& text,
                                     const std::shared_ptr<Exchange>& exchange) {
  try {
    if (route.order != nullptr) {
      need_room(engine_, 1);
      if (backlog_->is_full()) throw ApiError(ErrorKind::kUnavailable, kCrowded);
    }
    const ParsedJson parsed = parse_object(text);
    if (route.order != nullptr) {
      const auto order = std::make_shared<AnswerOrder>(route.order(context_, parsed.json, text));
      order->in_hand = in_hand_;
      return [this, order, exchange] { start(std::move(*order), exchange); };
    }
    // A function is copied on its way; a long text must not be.
    const auto reply = std::make_shared<Reply>();
    reply->body = (this->*route.of_text)(parsed.json);
    return [exchange, reply] { exchange->reply(std::move(*reply)); };
  } catch (const ApiError& error) {
    return [exchange, reply = error.reply()] { exchange->reply(reply); };
  } catch (...) {
    return [exchange, failure = Failure::at_hand()] { exchange->end_early(failure); };
  }
}

// False: there is no memory for it now.
bool Api::try_post(const std::function<void()>& told, const std::shared_ptr<Exchange>& exchange) {
  try {
    network_->post([told, exchange] {
      try {
        told();
      } catch (...) {
        exchange->end_early(Failure::at_hand());
      }
    });
    return true;
  } catch (...) {
    return false;
  }
}

void Api::handle(RequestHead head, std::string body, std::shared_ptr<Exchange> exchange) {
  if (head.method == "OPTIONS") {
    Reply reply;
    reply.status = 204;
    reply.content_type.clear();
    reply.headers = {{"Allow", "GET, HEAD, POST, OPTIONS"}};
    return exchange->reply(std::move(reply));
  }
  std::string others;
  const Route* const route = route_of(head, &others);
  if (route->at_once != nullptr) return exchange->reply((this->*route->at_once)(head));
  if (route->order != nullptr && backlog_->is_full()) {
    return exchange->reply(ApiError(ErrorKind::kUnavailable, kCrowded).reply());
  }
  const size_t body_bytes = body.size();
  auto work = [this, route, exchange, text = std::move(body)]() mutable {
    // What was read and has not begun takes memory that no limit counts yet.
    while (in_hand_.use_count() > kMostInHand + 1 && !worker_.is_over()) {
      std::this_thread::sleep_for(kMemoryPause);
    }
    if (exchange->is_gone()) return;
    std::function<void()> told = fail_for_memory;  // which takes none
    try {
      told = answer_to(*route, text, exchange);
    } catch (...) {
      std::string().swap(text);
    }
    while (!try_post(told, exchange) && !worker_.is_over()) {
      told = fail_for_memory;
      std::this_thread::sleep_for(kMemoryPause);
    }
  };
  worker_.post(body_bytes, std::move(work));
}

void Api::start(AnswerOrder order, const std::shared_ptr<Exchange>& exchange) {
  order.in_hand = nullptr;
  std::vector<AnswerRequest> prompts = std::move(order.prompts);
  start_job(engine_, make_writer(std::move(order), text_), std::move(prompts), exchange, backlog_,
            network_);
}

Reply Api::page(const RequestHead&) { return page_reply(); }

Reply Api::health(const RequestHead&) { return json_reply(JsonText::object({{"status", "ok"}})); }

JsonText Api::model_object() const {
  const cria_model_info& info = model_.info();
  const JsonText meta = JsonText::object({{"n_vocab", info.vocab_size},
                                          {"n_ctx_train", info.max_context},
                                          {"n_embd", info.d_model},
                                          {"n_params", info.n_parameters},
                                          {"size", info.file_bytes}});
  return JsonText::object({{"id", options_.model_name},
                           {"object", "model"},
                           {"created", created_},
                           {"owned_by", "cria"},
                           {"meta", meta}});
}

Reply Api::models(const RequestHead& head) {
  if (const std::optional<std::string> name = model_name_in(head.path)) {
    if (name == options_.model_name) return json_reply(model_object());
    return ApiError(ErrorKind::kNotFound, "there is no model of this name", "model").reply();
  }
  JsonText list = JsonText::array();
  list.push_back(model_object());
  return json_reply(JsonText::object({{"object", "list"}, {"data", list}}));
}

std::string Api::token_or_empty(uint32_t token) const {
  return token == CRIA_NO_TOKEN ? std::string() : text_->token_text(token);
}

Reply Api::props(const RequestHead&) {
  const cria_sampling& s = options_.usual;
  const MemoryBudget& m = options_.budget;
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
        JsonText::object({{"n_ctx", cria_context(model_.session())}, {"params", params}})},
       {"total_slots", model_.sessions().size()},
       {"model_alias", options_.model_name},
       {"model_path", model_.path()},
       {"modalities", JsonText::object({{"vision", false}, {"audio", false}})},
       {"chat_template", options_.chat_template},
       {"has_chat", text_->has_chat()},
       {"bos_token", token_or_empty(model_.info().bos_token)},
       {"eos_token", token_or_empty(end_token_)},
       {"build_info", std::string("cria ") + cria_version()},
       {"memory", memory}}));
}

Reply Api::slots(const RequestHead& head) {
  const std::vector<SessionStatus> sessions = engine_->sessions();
  const bool has_free = std::any_of(sessions.begin(), sessions.end(),
                                    [](const SessionStatus& s) { return !s.is_processing; });
  if (query_has(head.query, "fail_on_no_slot", "1") && !has_free) {
    return ApiError(ErrorKind::kUnavailable, "no slot available").reply();
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

Reply Api::metrics(const RequestHead&) {
  if (!options_.has_metrics) {
    return ApiError(ErrorKind::kNotSupported, "this server has no metrics; start it with --metrics")
        .reply();
  }
  Reply reply;
  reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = metrics_text(engine_->counts(), model_.sessions().size(), options_.budget.total(),
                            n_stderr_lines_dropped());
  return reply;
}

std::string Api::piece_of(uint32_t token) const {
  const std::string bytes = text_->token_bytes(token);
  const JsonText piece =
      bytes == text_->token_text(token)
          ? JsonText(bytes)
          : JsonText::array(bytes, [](char c) { return static_cast<unsigned char>(c); });
  return JsonText::object({{"id", token}, {"piece", piece}}).take();
}

std::string Api::tokenize(const Json& request) {
  const RequestFields fields(request);
  const Json* const content = fields.find("content");
  const bool with_pieces = fields.flag("with_pieces", false);
  const uint32_t flags = flag_to_parse(fields);
  const bool adds_special = fields.flag("add_special", false);
  std::vector<uint32_t> tokens;
  const auto put = [&](const Json& part, bool is_first) {
    if (!part.is_string()) {
      tokens.push_back(token_id(part, model_.info().vocab_size, "content"));
      return;
    }
    const uint32_t special = adds_special && is_first ? +CRIA_ENCODE_SPECIAL : 0;
    const Encoded encoded = text_->encode(part.get<std::string>(), flags | special);
    if (encoded.is_counted) {
      throw ApiError(ErrorKind::kInvalidRequest,
                     text_of("content: a text of more than %zu bytes is not split into tokens; "
                             "send it in parts",
                             text_->max_text_bytes()),
                     "content");
    }
    tokens.insert(tokens.end(), encoded.tokens.begin(), encoded.tokens.end());
  };
  if (content != nullptr && content->is_array()) {
    check_text_bytes(*content, text_->max_request_bytes(), "content");
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
    if (piece.empty()) piece = piece_of(token);
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

std::string Api::detokenize(const Json& request) {
  const Json* const list = RequestFields(request).list("tokens");
  std::vector<uint32_t> tokens;
  if (list != nullptr) {
    for (const Json& each : *list) {
      tokens.push_back(token_id(each, model_.info().vocab_size, "tokens"));
    }
  }
  return JsonText::object({{"content", text_->decode(tokens, true)}}).take();
}

std::string Api::apply_template(const Json& request) {
  return JsonText::object({{"prompt", text_->chat_text(chat_messages(request))}}).take();
}

}  // namespace cria::hosted
