// HTTP/1.1 for many at once on one thread. Connections, their buffers and their time are bounded;
// what is asked and answered is the handler's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "platforms/hosted/serve/http_types.h"

namespace cria::hosted {

struct HttpLimits {
  size_t header_bytes = size_t{16} << 10;  // of one request, its first line with them
  size_t body_bytes = size_t{4} << 20;
  size_t bodies_bytes = size_t{32} << 20;      // of all that have arrived and are not answered
  size_t small_body_bytes = size_t{64} << 10;  // that gets in beside them
  size_t ahead_bytes = size_t{48} << 10;       // of further requests, while one is answered
  size_t text_bytes = size_t{64} << 10;        // of an answer, about, made before it is taken
  size_t replies_bytes = size_t{64} << 20;     // of longer ones, whole, that wait to be taken
  size_t n_connections = 256;
  int new_ms = 1000;         // in which a client has time to begin, whoever else wants to connect
  int idle_seconds = 60;     // between requests
  int header_seconds = 10;   // from a request's first byte to the end of its header
  int body_seconds = 30;     // then to the end of its body
  int drain_seconds = 60;    // in which a client takes text_bytes, or what there is
  int comment_seconds = 15;  // without an event
};

struct HttpOptions {
  std::string host;  // an address, or "localhost"
  uint16_t port;     // 0: any free one
  HttpLimits limits = {};
  // Is told one line about each request, without its end.
  void (*log)(const std::string& line) = nullptr;
};

class HttpServer final : public NetworkThread {
 public:
  class Impl;

  // Listens. Throws ProgramError: kUsage for what is no address, kIo where it cannot be had.
  HttpServer(const HttpOptions& options, RequestHandler* handler);
  ~HttpServer() override;
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // "http://127.0.0.1:8080"
  [[nodiscard]] std::string address() const;

  // Serves until finish, on the calling thread. The first SIGINT, SIGTERM or SIGHUP calls on_stop;
  // another one ends the program as it would any.
  void run(std::function<void()> on_stop);

  // The others from any thread.
  void post(std::function<void()> task) override;
  std::unique_ptr<Waker> make_waker() override;
  // Takes no more connections and closes those without a request; others close when answered.
  void stop_accepting();
  // Ends run when all answers have been taken, or after so long.
  void finish(int patience_seconds);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace cria::hosted
