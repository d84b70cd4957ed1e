// The endpoints of the styles of the API. Each style is a folder of styles/, which reads its
// requests, writes its answers and has a table of its routes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/http_types.h"

namespace cria::hosted {

struct MemoryBudget {
  uint64_t model;
  uint64_t sessions;
  uint64_t workspaces;
  uint64_t json;
  uint64_t in_place;
  [[nodiscard]] uint64_t total() const { return model + sessions + workspaces + json; }
};

// What is served, for those who tell of it.
struct Service {
  OrderContext context;
  std::string chat_template;  // its own text where the file has it
  bool has_metrics;
  MemoryBudget budget;
  int64_t started_s;    // of the Unix clock
  int64_t modified_ns;  // as well, the file
  uint32_t end_token;   // the first; CRIA_NO_TOKEN: none
};

enum class Key { kNeeded, kNotNeeded };

struct Route {
  const char* method;
  const char* path;  // one that ends with a slash, but for "/", is all that begin so
  Key key;
  // One of the three: at once, on the thread of texts, or by the engine. Each throws ApiError.
  Reply (*at_once)(const Service& service, const RequestHead& head);
  // An answer's body; body is what request was parsed from.
  std::string (*of_text)(const Service& service, const Json& request, const std::string& body);
  ReadOrder order;
};

std::span<const Route> native_routes();
std::span<const Route> ollama_routes();
std::span<const Route> openai_routes();

// A reply of JSON.
Reply json_reply(JsonText json);

}  // namespace cria::hosted
