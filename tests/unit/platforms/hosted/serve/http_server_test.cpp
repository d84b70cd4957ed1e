// Clients that are slow, deaf or gone, held to limits that are short here.
#include "platforms/hosted/serve/http_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/http_client.h"
#include "tests/support/patience.h"

namespace cria::hosted {
namespace {

using std::chrono::milliseconds;
using test::HttpClient;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What a handler should not throw.
void throw_any(const std::string& kind) {
  if (kind == "memory") throw std::bad_alloc();
  if (kind == "runtime") throw std::runtime_error("it broke");
  throw 17;
}

// Of what tells an answer.
struct Teller {
  explicit Teller(std::atomic<int>* n_left_ones) : n_left(n_left_ones) {}
  Teller(const Teller&) = delete;
  Teller& operator=(const Teller&) = delete;
  ~Teller() { ++*n_left; }
  std::atomic<int>* n_left;
};

// /throw does so at once, or when its text is asked for; /whole, /chunks and /events answer without
// an end, /never never; others with their body.
class Handler final : public RequestHandler {
 public:
  WireForm form_of(const RequestHead& head) override {
    return head.query == "lines" ? WireForm::kLines : WireForm::kEvents;
  }
  bool accepts(const RequestHead&, Reply*) override { return true; }
  std::vector<HeaderField> headers_for(const RequestHead&) override { return {}; }
  void handle(RequestHead head, std::string body, std::shared_ptr<Exchange> exchange) override {
    if (head.path == "/throw") {
      const NextText next = [kind = body, n = 0](std::string* text) mutable {
        if (++n > 40) throw_any(kind);
        text->append(1024, 't');
        return true;
      };
      if (head.query == "events" || head.query == "lines") return exchange->begin_stream(next);
      if (head.query == "chunks") return exchange->reply({}, next);
      return throw_any(body);
    }
    if (head.path == "/whole") {
      Reply reply;
      reply.body.assign(n_long, 'w');
      return exchange->reply(std::move(reply));
    }
    if (head.path == "/never") {
      exchange->when_gone([this] { ++n_gone; });
      kept = std::move(exchange);
      ++n_kept;
      return;
    }
    if (head.path == "/last") {  // all of it at once, and that is the end
      const NextText next = [this, teller = std::make_shared<Teller>(&n_tellers_left),
                             n = 0](std::string* text) mutable {
        text->append(n++ == 0 ? 2 * HttpLimits().text_bytes : n_long.load(), 'l');
        n_ended += n - 1;
        return n < 2;
      };
      return head.query == "events" ? exchange->begin_stream(next) : exchange->reply({}, next);
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
    exchange->begin_stream(next);
  }

  std::atomic<size_t> n_long = size_t{64} << 20;
  std::atomic<int> n_gone = 0;
  std::atomic<int> n_kept = 0;
  std::atomic<int> n_ended = 0;  // of /last
  std::atomic<int> n_tellers_left = 0;
  std::shared_ptr<Exchange> kept;  // of the newest /never, on the server's thread
};

std::atomic<int> n_cut_off = 0;
std::atomic<int> n_made_room = 0;

void count_cuts(const std::string& line) {
  if (line.find("cut off, as its client takes too little") != std::string::npos) ++n_cut_off;
  if (line.find("cut off for another client") != std::string::npos) ++n_made_room;
}

void wait_for(const std::atomic<int>& count, int n) {
  EXPECT_TRUE(test::becomes_true([&] { return count >= n; }));
  EXPECT_EQ(count, n);
}

std::string asking(const std::string& path, const std::string& body = {}) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
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
  explicit HttpServerTrial(const HttpLimits& limits = short_limits())
      : server_({.host = "127.0.0.1", .port = 0, .limits = limits, .log = &count_cuts}, &handler_) {
    n_cut_off = 0;
    n_made_room = 0;
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

  static constexpr int kMostTries = 20;
  struct SlowReading {
    size_t n_bytes = 0;
    double longest_pause_seconds = 0.0;
  };
  // Asks and reads a step at a time for far longer than any limit, then the rest.
  [[nodiscard]] SlowReading read_slowly(const char* path) const {
    HttpClient slow = client(size_t{64} << 10);
    slow.send(asking(path));
    SlowReading reading;
    const auto begin = Clock::now();
    auto last = begin;
    while (reading.n_bytes < handler_.n_long) {
      const bool is_slow = seconds_since(begin) < 6;
      const size_t n = slow.read_some(size_t{32} << (is_slow ? 10 : 15)).size();
      reading.longest_pause_seconds = std::max(reading.longest_pause_seconds, seconds_since(last));
      last = Clock::now();
      if (n == 0) break;
      reading.n_bytes += n;
      if (is_slow) std::this_thread::sleep_for(milliseconds(50));
    }
    return reading;
  }

  Handler handler_;
  HttpServer server_;
  std::thread thread_;
};

TEST_F(HttpServerTrial, WhateverIsThrownEndsOneExchange) {
  for (const std::string kind : {"memory", "runtime", "other"}) {
    HttpClient whole = client();
    whole.send(asking("/throw", kind));
    EXPECT_EQ(whole.read_answer().status, kind == "memory" ? 503 : 500);
    HttpClient events = client();
    events.send(asking("/throw?events", kind));
    const std::string told = events.read_to_end();
    EXPECT_NE(told.find(kind == "memory" ? "unavailable_error" : "server_error"),
              std::string::npos);
    EXPECT_TRUE(told.ends_with("0\r\n\r\n"));
    HttpClient lines = client();
    lines.send(asking("/throw?lines", kind));
    const std::string line = lines.read_to_end();
    EXPECT_NE(line.find("Content-Type: application/x-ndjson\r\n"), std::string::npos);
    EXPECT_EQ(line.find(": cria"), std::string::npos);
    const std::string error =
        kind == "memory" ? "out of memory; try again" : "the server failed; its log says how";
    EXPECT_NE(line.find("\r\n{\"error\":\"" + error + "\"}\n\r\n0\r\n\r\n"), std::string::npos);
    HttpClient chunks = client();
    chunks.send(asking("/throw?chunks", kind));
    EXPECT_FALSE(chunks.read_to_end().ends_with("0\r\n\r\n"));
    server_.post([kind] { throw_any(kind); });
    HttpClient after = client();
    after.send(asking("/", "alive"));
    EXPECT_EQ(after.read_answer().body, "alive");
  }
}

TEST_F(HttpServerTrial, WhoReadsNothingIsCutOff) {
  int n = 0;
  for (const char* path : {"/chunks", "/events", "/whole"}) {
    SCOPED_TRACE(path);
    HttpClient deaf = client(4096);
    const auto begin = Clock::now();
    deaf.send(asking(path));
    wait_for(n_cut_off, ++n);
    // The limit of two seconds and a loaded machine; usually it is sixty.
    EXPECT_LT(seconds_since(begin), 40);
    HttpClient other = client();
    other.send(asking("/", "hello"));
    EXPECT_EQ(other.read_answer().body, "hello");
    EXPECT_LT(deaf.read_to_end().size(), handler_.n_long);
    EXPECT_TRUE(deaf.is_closed());
  }
  wait_for(handler_.n_gone, 2);  // a whole answer holds nothing of the handler's
}

// It counts what the answer takes, and that is taken as long as its client has not read it.
TEST_F(HttpServerTrial, WhatTellsAnAnswerStaysUntilItIsSent) {
  handler_.n_long = size_t{8} << 20;
  int n = 0;
  for (const char* path : {"/last?events", "/last?chunks"}) {
    SCOPED_TRACE(path);
    HttpClient late = client(size_t{64} << 10);
    late.send(asking(path));
    while (handler_.n_ended == n) static_cast<void>(late.read_some(4096));
    HttpClient other = client();
    other.send(asking("/", "hello"));
    EXPECT_EQ(other.read_answer().body, "hello");
    EXPECT_EQ(handler_.n_tellers_left, n);
    const bool is_cut = ++n == 2;
    if (is_cut) {
      late.close();
    } else {
      while (!late.read_some(size_t{1} << 20).empty() && handler_.n_tellers_left == 0) {
      }
    }
    wait_for(handler_.n_tellers_left, n);
  }
}

TEST_F(HttpServerTrial, WhoReadsSlowlyButSteadilyIsServed) {
  handler_.n_long = size_t{24} << 20;
  int n_gone = 0;
  for (const char* path : {"/chunks", "/events", "/whole"}) {
    SCOPED_TRACE(path);
    SlowReading reading = read_slowly(path);
    for (int i = 0; i < kMostTries && reading.n_bytes < handler_.n_long; ++i) {
      // A machine that stood still for as long made it a client that reads nothing.
      ASSERT_GT(reading.longest_pause_seconds, 1.0) << "cut off after " << reading.n_bytes;
      if (path != std::string_view("/whole")) ++n_gone;
      wait_for(handler_.n_gone, n_gone);
      reading = read_slowly(path);
    }
    EXPECT_GE(reading.n_bytes, handler_.n_long);
    EXPECT_EQ(handler_.n_gone, n_gone);
  }
}

// A byte now and then is not enough: text_bytes in drain_seconds, whatever the kind of answer.
TEST_F(HttpServerTrial, WhoReadsTooSlowlyIsCutOffByTheSameRule) {
  int n = 0;
  for (const char* path : {"/chunks", "/events", "/whole"}) {
    SCOPED_TRACE(path);
    HttpClient slow = client(4096);
    const auto begin = Clock::now();
    slow.send(asking(path));
    while (n_cut_off == n && !slow.read_some(512).empty()) {
      std::this_thread::sleep_for(milliseconds(200));
    }
    wait_for(n_cut_off, ++n);
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
    size_t n_sent = n_at_once;
    for (; n_sent < whole.size() && !slow.has_answer(); ++n_sent) {
      slow.send(whole.substr(n_sent, 1));
      std::this_thread::sleep_for(milliseconds(100));
    }
    const test::HttpAnswer answer = slow.read_answer();
    EXPECT_EQ(answer.status, 408);
    EXPECT_NE(answer.head.find("\r\nConnection: close"), std::string::npos) << answer.head;
    EXPECT_GT(seconds_since(begin), 0.9);
    // Ten bytes a second, or fewer where the machine is loaded: no byte gives another second.
    EXPECT_LT(n_sent, n_at_once + 40);
    slow.read_to_end();
    EXPECT_TRUE(slow.is_closed());
  }
  // One that sends nothing is not asked for anything.
  HttpClient idle = client();
  EXPECT_EQ(idle.read_to_end(), "");
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

// However much is sent after a request, its client's leaving is seen while it is answered.
TEST_F(HttpServerTrial, WhoLeavesIsMissedHoweverMuchItHasSent) {
  int n = 0;
  for (const size_t n_ahead : {size_t{0}, size_t{100}, size_t{16} << 10, size_t{20} << 10,
                               size_t{64} << 10, size_t{1} << 20, size_t{8} << 20}) {
    SCOPED_TRACE(n_ahead);
    HttpClient leaving = client();
    leaving.send(asking("/never") + std::string(n_ahead, 'G'));
    wait_for(handler_.n_kept, n + 1);
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(handler_.n_gone, n);
    leaving.close();
    wait_for(handler_.n_gone, ++n);
  }
}

// One that sends more than is kept gets its answer, and is told that no other follows.
TEST_F(HttpServerTrial, WhoSendsTooMuchAheadGetsOneAnswer) {
  int n = 0;
  bool is_told = false;
  // Long enough for the server to have read what is sent ahead; longer where the machine is loaded.
  for (const int pause_ms : {300, 3000, 30000}) {
    HttpClient hasty = client();
    hasty.send(asking("/never") + std::string(size_t{1} << 20, 'G'));
    wait_for(handler_.n_kept, ++n);
    std::this_thread::sleep_for(milliseconds(pause_ms));
    server_.post([this] {
      Reply reply;
      reply.body = "here";
      std::exchange(handler_.kept, nullptr)->reply(std::move(reply));
    });
    const test::HttpAnswer answer = hasty.read_answer();
    EXPECT_EQ(answer.body, "here");
    is_told = answer.head.find("\r\nConnection: close") != std::string::npos;
    if (is_told) break;
  }
  EXPECT_TRUE(is_told);
}

// Few connections, and limits of time that nobody reaches here.
class CrowdedTrial : public HttpServerTrial {
 protected:
  static constexpr size_t kConnections = 8;
  static constexpr int kNewMs = 50;
  static HttpLimits crowded() {
    HttpLimits limits;
    limits.n_connections = kConnections;
    limits.new_ms = kNewMs;
    limits.drain_seconds = limits.header_seconds = limits.body_seconds = limits.idle_seconds = 600;
    return limits;
  }
  CrowdedTrial() : HttpServerTrial(crowded()) { handler_.n_long = size_t{7} << 20; }

  // Clients that have begun to get an answer and do no more.
  [[nodiscard]] std::vector<std::unique_ptr<HttpClient>> deaf_clients(const char* path,
                                                                      size_t n) const {
    std::vector<std::unique_ptr<HttpClient>> deaf;
    for (size_t i = 0; i < n; ++i) {
      deaf.push_back(std::make_unique<HttpClient>(server_.address(), size_t{4} << 10));
      deaf.back()->send(asking(path));
    }
    for (const auto& each : deaf) {
      EXPECT_TRUE(test::becomes_true([&] { return each->has_answer(); }));
    }
    std::this_thread::sleep_for(milliseconds(2 * kNewMs));
    return deaf;
  }
  void expect_room(int n_clients) const {
    for (int i = 0; i < n_clients; ++i) {
      HttpClient newcomer = client();
      newcomer.send(asking("/", "room"));
      EXPECT_EQ(newcomer.read_answer().body, "room") << i;
    }
  }
};

TEST_F(CrowdedTrial, WhoReadsTooLittleMakesRoom) {
  for (const char* path : {"/whole", "/chunks", "/events"}) {
    const auto deaf = deaf_clients(path, kConnections);
    expect_room(20);
    EXPECT_GT(n_made_room.exchange(0), 0) << path;
  }
}

TEST_F(CrowdedTrial, WhoSendsTooLittleMakesRoom) {
  for (const std::string part : {"POST / HT",
                                 "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                                 "9\r\n\r\n{"}) {
    std::vector<std::unique_ptr<HttpClient>> slow;
    for (size_t i = 0; i < kConnections; ++i) {
      slow.push_back(std::make_unique<HttpClient>(server_.address()));
      slow.back()->send(part);
    }
    std::this_thread::sleep_for(milliseconds(2 * kNewMs));
    expect_room(20);
  }
}

// Those whose answers are being made stay, and so does who reads as fast as it comes.
TEST_F(CrowdedTrial, TheSlowestMakesRoom) {
  const auto deaf = deaf_clients("/whole", kConnections - 1);
  HttpClient quick = client();
  quick.send(asking("/whole"));
  size_t n_read = 0;
  const auto read_on = [&](size_t n_bytes) {
    for (const size_t wanted = n_read + n_bytes; n_read < wanted;) {
      const size_t n = quick.read_some(size_t{64} << 10).size();
      if (n == 0) break;
      n_read += n;
    }
  };
  read_on(size_t{1} << 20);
  std::this_thread::sleep_for(milliseconds(2 * kNewMs));
  std::vector<std::unique_ptr<HttpClient>> waiting;
  for (size_t i = 0; i < kConnections - 1; ++i) {
    read_on(size_t{256} << 10);
    waiting.push_back(std::make_unique<HttpClient>(server_.address()));
    waiting.back()->send(asking("/never"));
    wait_for(handler_.n_kept, static_cast<int>(i + 1));
  }
  EXPECT_EQ(n_made_room, static_cast<int>(kConnections - 1));
  EXPECT_EQ(handler_.n_gone, 0);
  read_on(handler_.n_long - n_read);
  EXPECT_GE(n_read, handler_.n_long);
}

}  // namespace
}  // namespace cria::hosted
