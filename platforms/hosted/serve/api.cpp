#include "platforms/hosted/serve/api.h"

#include <chrono>
#include <new>
#include <string_view>
#include <thread>
#include <utility>

#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/http_text.h"
#include "platforms/hosted/serve/parsed_json.h"

namespace cria::hosted {
namespace {

constexpr std::chrono::milliseconds kMemoryPause{10};
constexpr long kMostInHand = 1;

void fail_for_memory() { throw std::bad_alloc(); }

bool leads_to(const Route& route, std::string_view path, const std::string& decoded) {
  const std::string_view its_path = route.path;
  const bool is_prefix = its_path.size() > 1 && its_path.ends_with('/');
  return is_prefix ? decoded_behind(its_path, path).has_value() : decoded == its_path;
}

// Null: there is none, and other_methods says what else there is at this path.
const Route* route_of(const RequestHead& head, std::string* other_methods) {
  const std::string method = head.method == "HEAD" ? "GET" : head.method;
  const std::string decoded = decoded_path(head.path);
  for (const std::span<const Route> routes : {native_routes(), openai_routes(), ollama_routes()}) {
    for (const Route& route : routes) {
      if (!leads_to(route, head.path, decoded)) continue;
      if (method == route.method) return &route;
      const bool is_get = std::string_view(route.method) == "GET";
      *other_methods = std::string(route.method) + (is_get ? ", HEAD, OPTIONS" : ", OPTIONS");
    }
  }
  return nullptr;
}

// A function is copied on its way; a long text must not be.
std::function<void()> reply_with(std::string body, const std::shared_ptr<Exchange>& exchange) {
  const auto reply = std::make_shared<Reply>();
  reply->body = std::move(body);
  return [exchange, reply] { exchange->reply(std::move(*reply)); };
}

}  // namespace

Reply json_reply(JsonText json) {
  Reply reply;
  reply.body = json.take();
  return reply;
}

Api::Api(Service service, GuardOptions guard)
    : service_(std::move(service)), guard_(std::move(guard)) {}

std::vector<HeaderField> Api::headers_for(const RequestHead& head) {
  return guard_.cross_origin_headers(head);
}

// Only Ollama's paths begin so.
WireForm Api::form_of(const RequestHead& head) {
  return decoded_path(head.path).starts_with("/api/") ? WireForm::kLines : WireForm::kEvents;
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
          ApiError(ErrorKind::kMethodNotAllowed, "this path takes another method; use " + others)
              .reply(form_of(head));
      refusal->headers.push_back({"Allow", others});
      return false;
    }
    const bool is_encoded = !head.content_encoding.empty() && head.content_encoding != "identity";
    if (is_encoded || head.content_type.starts_with("multipart/")) {
      throw ApiError(ErrorKind::kUnsupportedMedia,
                     "send the body as JSON without Content-Encoding");
    }
    return true;
  } catch (const ApiError& error) {
    *refusal = error.reply(form_of(head));
    return false;
  }
}

// What the network thread is to do.
std::function<void()> Api::answer_to(const Route& route, WireForm form, const std::string& text,
                                     const std::shared_ptr<Exchange>& exchange) {
  try {
    if (route.order != nullptr) {
      need_room(service_.context.engine, 1);
      if (backlog_->is_full()) throw ApiError(ErrorKind::kUnavailable, kCrowded);
    }
    const ParsedJson parsed = parse_object(text);
    if (route.order != nullptr) {
      const auto order =
          std::make_shared<AnswerOrder>(route.order(service_.context, parsed.json, text));
      if (order->prompts.empty()) return reply_with(std::move(order->whole_answer), exchange);
      order->in_hand = in_hand_;
      return [this, order, exchange] { start(std::move(*order), exchange); };
    }
    return reply_with(route.of_text(service_, parsed.json, text), exchange);
  } catch (const ApiError& error) {
    return [exchange, reply = error.reply(form)] { exchange->reply(reply); };
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
  const WireForm form = form_of(head);
  try {
    if (route->at_once != nullptr) return exchange->reply(route->at_once(service_, head));
    if (route->order != nullptr && backlog_->is_full()) {
      throw ApiError(ErrorKind::kUnavailable, kCrowded);
    }
  } catch (const ApiError& error) {
    return exchange->reply(error.reply(form));
  }
  const size_t body_bytes = body.size();
  auto work = [this, route, form, exchange, text = std::move(body)]() mutable {
    // What was read and has not begun takes memory that no limit counts yet.
    while (in_hand_.use_count() > kMostInHand + 1 && !worker_.is_over()) {
      std::this_thread::sleep_for(kMemoryPause);
    }
    if (exchange->is_gone()) return;
    std::function<void()> told = fail_for_memory;  // which takes none
    try {
      told = answer_to(*route, form, text, exchange);
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
  const MakeWriter make_writer = order.make_writer;
  start_job(service_.context.engine, make_writer(std::move(order), service_.context.text),
            std::move(prompts), exchange, backlog_, network_);
}

}  // namespace cria::hosted
