// A client that does what a test says, and nothing of its own.
#pragma once

#include <cstddef>
#include <string>

namespace cria::test {

struct HttpAnswer {
  int status = 0;  // 0: none came
  std::string head;
  std::string body;
};

class HttpClient {
 public:
  // address as HttpServer::address has it. receive_bytes: of the system's buffer; 0: as usual.
  explicit HttpClient(const std::string& address, size_t receive_bytes = 0);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // As much as is taken; the rest is given up once nothing is for five seconds.
  void send(const std::string& data);
  void close();
  // At most so many bytes as soon as there are some; none: it is closed, or kPatience is over.
  std::string read_some(size_t n_most);
  // All that comes until it is closed, or kPatience is over.
  std::string read_to_end();
  // One answer with Content-Length, or an end in chunks that is left as it is.
  HttpAnswer read_answer();
  // Something waits to be read.
  [[nodiscard]] bool has_answer() const;
  // The server's end, or a reset, has been read.
  [[nodiscard]] bool is_closed() const { return is_closed_; }

 private:
  int socket_ = -1;
  bool is_closed_ = false;
  std::string unread_;
};

}  // namespace cria::test
