// Clients that are slow, deaf or gone, held to limits that are short here.
#include "platforms/hosted/serve/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

#include "tests/support/http_client.h"

namespace cria::hosted {
namespace {

using std::chrono::milliseconds;
using test::HttpClient;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// /whole, /chunks and /events answer without an end, /never never; others with their body.
class Handler final : public RequestHandler {
 public:
  bool accepts(const RequestHead&, Reply*) override { return true; }
  std::vector<HeaderField> headers_for(const RequestHead&) override { return {}; }
  void handle(RequestHead head, std::string body, std::shared_ptr<Exchange> exchange) override {
    if (head.path == "/whole") {
      Reply reply;
      reply.body.assign(n_long, 'w');
      return exchange->reply(std::move(reply));
    }
    if (head.path == "/never") {
      exchange->when_gone([this] { ++n_gone; });
      kept = std::move(exchange);
      return;
    }
    if (head.path != "/chunks" && head.path != "/events") {
      Reply reply;
      reply.body = std::move(body);
      return exchange->reply(std::move(reply));
    }
    exchange->when_gone([this] { ++n_gone; });
    const NextText next = [this, n = size_t{0}](std::string* text) mutable {
      text->append(1024, 'e');
      n += 1024;
      return n < n_long;
    };
    if (head.path == "/chunks") return exchange->reply({}, next);
    exchange->begin_events(next);
  }

  std::atomic<size_t> n_long = size_t{64} << 20;
  std::atomic<int> n_gone = 0;
  std::shared_ptr<Exchange> kept;
};

std::atomic<int> n_cut_off = 0;

void count_cuts(const std::string& line) {
  if (line.find("cut off, as its client takes too little") != std::string::npos) ++n_cut_off;
}

void wait_for(const std::atomic<int>& count, int n) {
  const auto begin = Clock::now();
  while (count < n && seconds_since(begin) < 30) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(count, n);
}

class HttpServerTrial : public testing::Test {
 protected:
  static HttpLimits short_limits() {
    HttpLimits limits;
    limits.header_seconds = 1;
    limits.body_seconds = 1;
    limits.drain_seconds = 2;
    limits.idle_seconds = 2;
    limits.text_bytes = size_t{16} << 10;
    return limits;
  }
  HttpServerTrial()
      : server_({.host = "127.0.0.1", .port = 0, .limits = short_limits(), .log = &count_cuts},
                &handler_) {
    n_cut_off = 0;
    thread_ = std::thread([this] { server_.run([] {}); });
  }
  ~HttpServerTrial() override {
    server_.stop_accepting();
    server_.finish(0);
    thread_.join();
  }
  [[nodiscard]] HttpClient client(size_t receive_bytes = 0) const {
    return HttpClient(server_.address(), receive_bytes);
  }
  Handler handler_;
  HttpServer server_;
  std::thread thread_;
};

std::string asking(const std::string& path, const std::string& body = {}) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

TEST_F(HttpServerTrial, WhoReadsNothingIsCutOff) {
  int n = 0;
  for (const char* path : {"/chunks", "/events", "/whole"}) {
    SCOPED_TRACE(path);
    HttpClient deaf = client(4096);
    deaf.send(asking(path));
    const auto begin = Clock::now();
    wait_for(n_cut_off, ++n);
    EXPECT_LT(seconds_since(begin), 8);
    HttpClient other = client();
    other.send(asking("/", "hello"));
    EXPECT_EQ(other.read_answer().body, "hello");
    EXPECT_LT(deaf.read_until_quiet(1.0).size(), handler_.n_long);
    EXPECT_TRUE(deaf.is_closed());
  }
  EXPECT_EQ(handler_.n_gone, 2);  // a whole answer holds nothing of the handler's
}

TEST_F(HttpServerTrial, WhoReadsSlowlyButSteadilyIsServed) {
  handler_.n_long = size_t{24} << 20;
  for (const char* path : {"/chunks", "/events", "/whole"}) {
    SCOPED_TRACE(path);
    HttpClient slow = client(size_t{64} << 10);
    slow.send(asking(path));
    const auto begin = Clock::now();
    size_t n_read = 0;
    // Far longer than any limit, a step at a time.
    while (seconds_since(begin) < 6) {
      const size_t n = slow.read_some(size_t{32} << 10).size();
      ASSERT_GT(n, 0u) << "cut off after " << seconds_since(begin) << " s and " << n_read;
      n_read += n;
      std::this_thread::sleep_for(milliseconds(50));
    }
    n_read += slow.read_until_quiet(1.0).size();
    EXPECT_GE(n_read, handler_.n_long);
    EXPECT_EQ(handler_.n_gone, 0);
  }
}

// A byte now and then is not enough: text_bytes in drain_seconds, whatever the kind of answer.
TEST_F(HttpServerTrial, WhoReadsTooSlowlyIsCutOffByTheSameRule) {
  int n = 0;
  for (const char* path : {"/chunks", "/events", "/whole"}) {
    SCOPED_TRACE(path);
    HttpClient slow = client(4096);
    slow.send(asking(path));
    const auto begin = Clock::now();
    for (; n_cut_off == n && seconds_since(begin) < 20;
         std::this_thread::sleep_for(milliseconds(200))) {
      EXPECT_FALSE(slow.read_some(512).empty());
    }
    EXPECT_EQ(n_cut_off, ++n);
    EXPECT_GT(seconds_since(begin), 0.9);
  }
}

TEST_F(HttpServerTrial, WhoSendsARequestSlowlyIsToldSo) {
  const std::string whole = asking("/", std::string(100, 'b'));
  const size_t n_head = whole.find("\r\n\r\n") + 4;
  for (const size_t n_at_once : {size_t{1}, n_head, n_head + 10}) {
    SCOPED_TRACE(n_at_once);
    HttpClient slow = client();
    const auto begin = Clock::now();
    slow.send(whole.substr(0, n_at_once));
    for (size_t i = n_at_once; i < whole.size() && !slow.has_answer(); ++i) {
      slow.send(whole.substr(i, 1));
      std::this_thread::sleep_for(milliseconds(100));
    }
    const test::HttpAnswer answer = slow.read_answer();
    EXPECT_EQ(answer.status, 408);
    EXPECT_NE(answer.head.find("\r\nConnection: close"), std::string::npos) << answer.head;
    EXPECT_GT(seconds_since(begin), 0.9);
    EXPECT_LT(seconds_since(begin), 4.0);
    slow.read_until_quiet(4.0);
    EXPECT_TRUE(slow.is_closed());
  }
  // One that sends nothing is not asked for anything.
  HttpClient idle = client();
  EXPECT_EQ(idle.read_until_quiet(5.0), "");
  EXPECT_TRUE(idle.is_closed());
}

TEST_F(HttpServerTrial, RequestsThatAreSentAheadAreAnsweredInOrder) {
  HttpClient ahead = client();
  std::string all;
  for (int i = 0; i < 40; ++i) all += asking("/", std::to_string(i) + std::string(1000, 'x'));
  ahead.send(all);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(ahead.read_answer().body, std::to_string(i) + std::string(1000, 'x'));
  }
}

// However much is sent behind a request, its client's leaving is seen while it is answered.
TEST_F(HttpServerTrial, WhoLeavesIsMissedHoweverMuchItHasSent) {
  int n = 0;
  for (const size_t n_ahead : {size_t{0}, size_t{100}, size_t{16} << 10, size_t{20} << 10,
                               size_t{64} << 10, size_t{1} << 20, size_t{8} << 20}) {
    SCOPED_TRACE(n_ahead);
    HttpClient leaving = client();
    leaving.send(asking("/never") + std::string(n_ahead, 'G'));
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(handler_.n_gone, n);
    leaving.close();
    wait_for(handler_.n_gone, ++n);
  }
}

// One that sends more than is kept gets its answer, and is told that no other follows.
TEST_F(HttpServerTrial, WhoSendsTooMuchAheadGetsOneAnswer) {
  HttpClient hasty = client();
  hasty.send(asking("/never") + std::string(size_t{1} << 20, 'G'));
  std::this_thread::sleep_for(milliseconds(300));
  server_.post([this] {
    Reply reply;
    reply.body = "here";
    std::exchange(handler_.kept, nullptr)->reply(std::move(reply));
  });
  const test::HttpAnswer answer = hasty.read_answer();
  EXPECT_EQ(answer.body, "here");
  EXPECT_NE(answer.head.find("\r\nConnection: close"), std::string::npos) << answer.head;
}

}  // namespace
}  // namespace cria::hosted
