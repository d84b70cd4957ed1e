// The server behind HttpServer: who is connected, and what all of them share. Its connections know
// it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/handler_memory.h"
#include "platforms/hosted/serve/http_server.h"
#include "platforms/hosted/serve/http_text.h"
#include "platforms/hosted/serve/network_names.h"

namespace cria::hosted {

class Connection;

// What is answered where a request fails: made while there is memory for it.
struct EarlyEnd {
  EarlyEnd(const ApiError& error, WireForm form) : EarlyEnd(error.reply(form), form) {}
  EarlyEnd(const Reply& reply, WireForm form)
      : status(reply.status), text(closing_text(reply)), of_stream(framed(form, reply.body)) {}
  int status;
  std::string text;
  std::string of_stream;
};

// The same in each form.
struct EarlyEnds {
  EarlyEnds(ErrorKind kind, const char* message) : EarlyEnds(ApiError(kind, message)) {}
  explicit EarlyEnds(const ApiError& error)
      : events(error, WireForm::kEvents), lines(error, WireForm::kLines) {}
  [[nodiscard]] const EarlyEnd& in(WireForm form) const {
    return form == WireForm::kEvents ? events : lines;
  }
  EarlyEnd events;
  EarlyEnd lines;
};

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, RequestHandler* handler);

  void run(std::function<void()> on_stop);
  void stop_accepting();
  void finish(int patience_seconds);
  void forget(const std::shared_ptr<Connection>& connection);
  void count_body(size_t n_bytes);

  const HttpOptions options;
  const EarlyEnds no_memory{ErrorKind::kUnavailable, kOutOfMemory};
  const EarlyEnds failed{ErrorKind::kServer, kServerFailed};
  // Of bodies, until they are freed, which may be on another thread and after their client.
  const std::shared_ptr<std::atomic<size_t>> bodies_bytes =
      std::make_shared<std::atomic<size_t>>(0);
  RequestHandler* const handler;
  asio::io_context io{1};  // after options, with which its descriptors come
  Tcp::acceptor acceptor{io};
  bool is_stopping = false;
  size_t replies_bytes = 0;

 private:
  void accept();
  void on_accepted(ErrorCode error, Tcp::socket socket);
  void welcome(Tcp::socket socket);
  [[nodiscard]] std::shared_ptr<Connection> slowest_connection() const;
  void turn_away(Tcp::socket socket, const std::string& text);
  void wait_for_tick();
  void leave_when_done();

  const std::string too_many_text_ = closing_text(
      ApiError(ErrorKind::kUnavailable, "too many connections").reply(WireForm::kEvents));
  std::shared_ptr<HandlerMemory> accept_memory_ = std::make_shared<HandlerMemory>();
  std::shared_ptr<HandlerMemory> pause_memory_ = std::make_shared<HandlerMemory>();
  std::shared_ptr<HandlerMemory> tick_memory_ = std::make_shared<HandlerMemory>();
  asio::steady_timer accept_again_{io};
  asio::steady_timer tick_{io};
  asio::steady_timer patience_{io};
  bool is_ticking_ = false;
  bool is_finishing_ = false;
  bool lacks_descriptors_ = false;
  bool accept_is_pending_ = false;
  std::set<std::shared_ptr<Connection>> connections_;
};

}  // namespace cria::hosted
