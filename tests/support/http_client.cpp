#include "tests/support/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>

#include "tests/support/patience.h"

namespace cria::test {
namespace {

// A server may stop reading; what it will read, it takes in milliseconds.
constexpr std::chrono::seconds kSendPatience(5);

bool wait(int socket, short events, std::chrono::milliseconds longest) {
  pollfd wanted = {socket, events, 0};
  return ::poll(&wanted, 1, static_cast<int>(longest.count())) > 0;
}

}  // namespace

HttpClient::HttpClient(const std::string& address, size_t receive_bytes) {
  const size_t colon = address.rfind(':');
  sockaddr_in server = {};
  server.sin_family = AF_INET;
  server.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  server.sin_port =
      ::htons(static_cast<uint16_t>(std::strtoul(address.c_str() + colon + 1, nullptr, 10)));
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int n_bytes = static_cast<int>(receive_bytes);
  if (n_bytes != 0) ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &n_bytes, sizeof(n_bytes));
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&server), sizeof(server)) != 0) {
    throw std::runtime_error("cannot connect to " + address);
  }
}

HttpClient::~HttpClient() { close(); }

void HttpClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

bool HttpClient::has_answer() const { return wait(socket_, POLLIN, {}); }

void HttpClient::send(const std::string& data) {
  size_t n_sent = 0;
  while (n_sent < data.size() && wait(socket_, POLLOUT, kSendPatience)) {
    const ssize_t n =
        ::send(socket_, data.data() + n_sent, data.size() - n_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0) return;
    n_sent += static_cast<size_t>(n);
  }
}

std::string HttpClient::read_some(size_t n_most) {
  std::string data;
  if (!unread_.empty()) {
    data = unread_.substr(0, n_most);
    unread_.erase(0, n_most);
    return data;
  }
  if (is_closed_ || !wait(socket_, POLLIN, kPatience)) return {};
  data.resize(n_most);
  const ssize_t n = ::recv(socket_, data.data(), n_most, 0);
  if (n <= 0) is_closed_ = true;
  data.resize(n <= 0 ? 0 : static_cast<size_t>(n));
  return data;
}

std::string HttpClient::read_to_end() {
  constexpr size_t kBytes = size_t{64} << 10;
  std::string all;
  for (;;) {
    const std::string more = read_some(kBytes);
    if (more.empty()) return all;
    all += more;
  }
}

HttpAnswer HttpClient::read_answer() {
  constexpr size_t kBytes = size_t{64} << 10;
  HttpAnswer answer;
  std::string all;
  size_t n_head = std::string::npos;
  size_t n_body = 0;
  while (n_head == std::string::npos || all.size() < n_head + n_body) {
    const std::string more = read_some(kBytes);
    if (more.empty()) break;
    all += more;
    if (n_head != std::string::npos || all.find("\r\n\r\n") == std::string::npos) continue;
    constexpr std::string_view kLength = "\r\nContent-Length: ";
    n_head = all.find("\r\n\r\n") + 4;
    const size_t at = all.find(kLength);
    if (at < n_head) n_body = std::strtoul(all.c_str() + at + kLength.size(), nullptr, 10);
  }
  if (n_head == std::string::npos) return answer;
  constexpr size_t kStatusAt = sizeof("HTTP/1.1 ") - 1;
  answer.status = std::atoi(all.c_str() + kStatusAt);
  answer.head = all.substr(0, n_head - 2);
  answer.body = all.substr(n_head, n_body);
  unread_ = all.size() > n_head + n_body ? all.substr(n_head + n_body) : std::string();
  return answer;
}

}  // namespace cria::test
