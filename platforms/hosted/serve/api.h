// The API: who may use it, and what becomes of its requests.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "platforms/hosted/serve/answer_job.h"
#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/guard.h"
#include "platforms/hosted/serve/http_types.h"
#include "platforms/hosted/serve/route.h"
#include "platforms/hosted/serve/worker.h"

namespace cria::hosted {

// Of the network thread. Texts are read on a thread of their own, so that they hold up nobody's
// answer.
class Api final : public RequestHandler {
 public:
  Api(Service service, GuardOptions guard);

  // Before any request comes.
  void set_network(NetworkThread* network) { network_ = network; }

  // What was posted has been, and nothing will be.
  void stop() { worker_.stop(); }

  WireForm form_of(const RequestHead& head) override;
  bool accepts(const RequestHead& head, Reply* refusal) override;
  std::vector<HeaderField> headers_for(const RequestHead& head) override;
  void handle(RequestHead head, std::string body, std::shared_ptr<Exchange> exchange) override;

 private:
  std::function<void()> answer_to(const Route& route, WireForm form, const std::string& text,
                                  const std::shared_ptr<Exchange>& exchange);
  bool try_post(const std::function<void()>& told, const std::shared_ptr<Exchange>& exchange);
  void start(AnswerOrder order, const std::shared_ptr<Exchange>& exchange);

  Service service_;
  Guard guard_;
  std::shared_ptr<Backlog> backlog_ = std::make_shared<Backlog>();
  std::shared_ptr<int> in_hand_ = std::make_shared<int>();  // an owner for each order
  NetworkThread* network_ = nullptr;
  Worker worker_;  // the last, as it uses the others
};

}  // namespace cria::hosted
