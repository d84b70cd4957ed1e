// The endpoints: which there are, who may use them, and what they answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/serve/answer_job.h"
#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/guard.h"
#include "platforms/hosted/serve/http_types.h"
#include "platforms/hosted/serve/text_service.h"
#include "platforms/hosted/serve/worker.h"

namespace cria::hosted {

struct MemoryBudget {
  uint64_t model;
  uint64_t sessions;
  uint64_t workspaces;
  uint64_t json;
  uint64_t in_place;
  [[nodiscard]] uint64_t total() const { return model + sessions + workspaces + json; }
};

struct ApiOptions {
  std::string model_name;
  std::string chat_template;  // its own text where the file has it
  cria_sampling usual;        // where a request says nothing
  uint32_t max_waiting;
  bool has_metrics;
  MemoryBudget budget;
};

// Of the network thread. Texts are read on a thread of their own, so that they hold up nobody's
// answer.
class Api final : public RequestHandler {
 public:
  Api(const ModelSession& model, Engine* engine, TextService* text, GuardOptions guard,
      ApiOptions options);

  // Before any request comes.
  void set_network(NetworkThread* network) { network_ = network; }

  // What was posted has been, and nothing will be.
  void stop() { worker_.stop(); }

  bool accepts(const RequestHead& head, Reply* refusal) override;
  std::vector<HeaderField> headers_for(const RequestHead& head) override;
  void handle(RequestHead head, std::string body, std::shared_ptr<Exchange> exchange) override;

 private:
  using Read = AnswerOrder (*)(const OrderContext&, const Json&, const std::string&);
  enum class Key { kNeeded, kNotNeeded };
  struct Route {
    const char* method;
    const char* path;
    Key key;
    // One of the three: at once, on the thread of texts, or by the engine.
    Reply (Api::*at_once)(const RequestHead& head);
    std::string (Api::*of_text)(const Json& request);  // an answer's body
    Read order;
  };
  static const Route kRoutes[];
  static const Route* route_of(const RequestHead& head, std::string* other_methods);

  Reply page(const RequestHead&);
  Reply health(const RequestHead&);
  Reply models(const RequestHead&);
  Reply props(const RequestHead&);
  Reply slots(const RequestHead& head);
  Reply metrics(const RequestHead&);
  [[nodiscard]] std::string piece_of(uint32_t token) const;
  std::string tokenize(const Json& request);
  std::string detokenize(const Json& request);
  std::string apply_template(const Json& request);

  std::function<void()> answer_to(const Route& route, const std::string& text,
                                  const std::shared_ptr<Exchange>& exchange);
  bool try_post(const std::function<void()>& told, const std::shared_ptr<Exchange>& exchange);
  [[nodiscard]] JsonText model_object() const;
  void start(AnswerOrder order, const std::shared_ptr<Exchange>& exchange);
  [[nodiscard]] std::string token_or_empty(uint32_t token) const;

  const ModelSession& model_;
  Engine* engine_;
  TextService* text_;
  Guard guard_;
  ApiOptions options_;
  OrderContext context_;
  std::shared_ptr<Backlog> backlog_ = std::make_shared<Backlog>();
  std::shared_ptr<int> in_hand_ = std::make_shared<int>();  // an owner for each order
  int64_t created_;
  uint32_t end_token_;
  NetworkThread* network_ = nullptr;
  Worker worker_;  // the last, as it uses the others
};

}  // namespace cria::hosted
