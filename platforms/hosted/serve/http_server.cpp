#include "platforms/hosted/serve/http_server.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>

#include <boost/asio/bind_allocator.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/buffers_range.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/optional/optional.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <limits>
#include <new>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/handler_memory.h"

namespace cria::hosted {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using Tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;
using std::chrono::seconds;

constexpr int kHttp11 = 11;

const char* reason_of(int status) {
  return status == 429 ? "Too Many Requests"
                       : http::obsolete_reason(static_cast<http::status>(status)).data();
}

// The one value of a field; several are a mistake that programs read differently.
std::string only_value(const http::fields& fields, http::field name, bool* is_twice) {
  const auto [begin, end] = fields.equal_range(name);
  if (begin == end) return {};
  if (std::next(begin) != end) *is_twice = true;
  return std::string(begin->value());
}

// Of "http://authority/path", of which the path is left; empty for other targets.
std::string take_authority(std::string* target) {
  constexpr std::string_view kScheme = "http://";
  if (!beast::iequals(std::string_view(*target).substr(0, kScheme.size()), kScheme)) return {};
  const size_t end = std::min(target->find_first_of("/?", kScheme.size()), target->size());
  std::string authority = target->substr(kScheme.size(), end - kScheme.size());
  if (authority.empty()) return {};
  target->erase(0, end);
  if (!target->starts_with('/')) target->insert(0, 1, '/');
  return authority;
}

bool has_visible_text_only(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<unsigned char>(c) > 0x20 && static_cast<unsigned char>(c) != 0x7f;
  });
}

// A body in memory that grows with what arrives: what a header announces costs nothing.
struct GrowingBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool kIsRequest, typename Fields>
    reader(http::header<kIsRequest, Fields>&, value_type& body) : body_(body) {}
    // The library's names.
    void init(const boost::optional<std::uint64_t>&, ErrorCode& error) { error = {}; }
    template <typename Buffers>
    size_t put(const Buffers& buffers, ErrorCode& error) {
      error = {};
      const size_t before = body_.size();
      try {
        append(buffers);
      } catch (const std::bad_alloc&) {
        error = boost::system::errc::make_error_code(boost::system::errc::not_enough_memory);
      }
      return body_.size() - before;
    }
    void finish(ErrorCode& error) { error = {}; }

   private:
    template <typename Buffers>
    void append(const Buffers& buffers) {
      for (const auto part : beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(part.data()), part.size());
      }
    }

    value_type& body_;
  };
};

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr const char* kComment = ": cria\n\n";

// A whole answer, after which the connection closes.
std::string closing_text(const Reply& reply) {
  std::string text = text_of("HTTP/1.1 %d %s\r\nContent-Type: %s\r\n", reply.status,
                             reason_of(reply.status), reply.content_type.c_str());
  for (const HeaderField& field : reply.headers) text += field.name + ": " + field.value + "\r\n";
  text += text_of("Connection: close\r\nContent-Length: %zu\r\n\r\n", reply.body.size());
  return text + reply.body;
}

// Waits for memory where there is none: what the server's end hangs on is not lost.
void post_surely(asio::io_context* io, const std::function<void()>& task) {
  constexpr std::chrono::milliseconds kPause{10};
  for (;;) {
    try {
      return asio::post(*io, task);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kPause);
    }
  }
}

class ServerWaker final : public Waker {
 public:
  explicit ServerWaker(asio::io_context* io) : io_(io) {}
  void wake(std::shared_ptr<Wakeable> sleeper) noexcept override {
    asio::post(*io_, stored_in(memory_, [sleeper = std::move(sleeper)] { sleeper->on_wake(); }));
  }

 private:
  asio::io_context* io_;
  std::shared_ptr<HandlerMemory> memory_ = std::make_shared<HandlerMemory>();
};

}  // namespace

class Connection;

class HttpServer::Impl {
 public:
  Impl(const HttpOptions& options, RequestHandler* handler);

  void run(std::function<void()> on_stop);
  void stop_accepting();
  void finish(int patience_seconds);
  void forget(const std::shared_ptr<Connection>& connection);
  void count_body(size_t n_bytes);

  const HttpOptions options;
  // What is answered where there is no memory; made while there is.
  const Reply no_memory = ApiError(ErrorKind::kUnavailable, kNoMemory).reply();
  const std::string no_memory_text = closing_text(no_memory);
  const std::string no_memory_event = "data: " + no_memory.body + "\n\n";
  // Of bodies, until they are freed, which may be on another thread and after their client.
  const std::shared_ptr<std::atomic<size_t>> bodies_bytes =
      std::make_shared<std::atomic<size_t>>(0);
  RequestHandler* const handler;
  asio::io_context io{1};
  Tcp::acceptor acceptor{io};
  bool is_stopping = false;
  size_t replies_bytes = 0;

 private:
  void accept();
  void on_accepted(ErrorCode error, Tcp::socket socket);
  void welcome(Tcp::socket socket);
  void turn_away(Tcp::socket socket, const std::string& text);
  void wait_for_tick();
  void leave_when_done();

  const std::string too_many_text_ =
      closing_text(ApiError(ErrorKind::kUnavailable, "too many connections").reply());
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

// A client. Every operation that waits holds a reference; close ends them all. At most one read and
// one write wait, in memory of their own, so that each can begin however little there is.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(HttpServer::Impl* server)
      : server_(server),
        socket_(server->io),
        limits_(server->options.limits),
        buffer_(limits_.ahead_bytes + kReadBytes) {}

  void start(Tcp::socket socket) {
    socket_ = std::move(socket);
    guard([this] { begin_request(); });
  }
  // Looks at the clock.
  void on_tick(int64_t now_ms);
  void close(const char* why = "client left");
  [[nodiscard]] bool is_idle() const { return state_ == State::kIdle && unsent_.empty(); }
  // Still sends its request.
  [[nodiscard]] bool is_sending() const {
    return state_ == State::kHeader || state_ == State::kBody;
  }
  [[nodiscard]] int64_t since_ms() const { return since_ms_; }  // idle, or sending
  [[nodiscard]] bool is_gone() const { return is_gone_; }       // from any thread
  // Of a body that still arrives.
  [[nodiscard]] size_t unfinished_bytes() const { return state_ == State::kBody ? body_bytes_ : 0; }
  void drop_body();

  // Of the exchange.
  void reply(const Reply& reply);
  void reply(Reply head, NextText next);
  void begin_events(NextText next);
  void pump();
  void set_when_gone(std::function<void()> told);
  // The answer at hand ends, as there is no memory for it.
  void end_answer_for_memory() {
    if (state_ == State::kAnswering) end_for_memory();
  }

  // Runs a step.
  template <typename Step>
  void guard(const Step& step) {
    try {
      step();
    } catch (const std::bad_alloc&) {
      end_for_memory();
    }
  }

  std::string note;

 private:
  enum class State { kIdle, kHeader, kBody, kAnswering, kClosing, kLingering, kClosed };

  static constexpr size_t kReadBytes = size_t{16} << 10;
  static constexpr size_t kSpareBytes = 512;

  void read();
  void on_read(ErrorCode error, size_t n);
  void begin_request();
  void read_header();
  void on_header_error(ErrorCode error);
  bool take_head(Reply* refusal);
  void begin_body();
  void read_body();
  void on_body_error(ErrorCode error);
  void take_body();
  void refuse(ErrorKind kind, const std::string& message);
  void refuse(const Reply& reply);
  void hear_end(ErrorCode error);
  // Ends what there was no memory for: with an error, where one can be told.
  void end_for_memory();
  void answered();
  [[nodiscard]] std::string head_text(int status, const std::string& content_type,
                                      const std::vector<HeaderField>& more);
  void put_streaming_head(std::string head);
  void wait_for_comment();
  void put_chunk(std::string_view text);
  bool put_text(std::string* text);
  void write();
  void write_some();
  void on_written(ErrorCode error, size_t n);
  void set_deadline(int after_seconds);
  void on_deadline();
  void linger();
  void release_body();
  void release_reply();
  void log() noexcept;

  using Parser = http::request_parser<GrowingBody>;

  HttpServer::Impl* server_;
  Tcp::socket socket_;
  const HttpLimits& limits_;
  std::shared_ptr<HandlerMemory> read_memory_ = std::make_shared<HandlerMemory>();
  std::shared_ptr<HandlerMemory> write_memory_ = std::make_shared<HandlerMemory>();
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  RequestHead head_;
  State state_ = State::kIdle;
  bool is_http11_ = true;
  bool keeps_alive_ = false;
  bool is_head_request_ = false;
  bool is_streaming_ = false;
  bool is_events_ = false;  // with comments between them
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool is_dropping_ = false;  // what it sends ahead
  bool hears_end_ = false;    // the client's end of its requests came while they were read ahead
  int status_ = 0;
  size_t body_bytes_ = 0;   // counted in the server's
  size_t reply_bytes_ = 0;  // as well
  int64_t since_ms_ = monotonic_ms();
  double started_seconds_ = 0.0;
  int64_t deadline_ms_ = kNever;
  int64_t comment_ms_ = kNever;  // when one is due
  std::string unsent_;           // follows sending_
  std::string sending_;          // belongs to the write that waits
  size_t n_sent_ = 0;            // of it
  size_t n_of_slice_ = 0;        // sent of the newest text_bytes
  std::atomic<bool> is_gone_ = false;
  NextText next_;  // is_streaming_
  std::vector<HeaderField> extra_;
  std::function<void()> when_gone_;
};

namespace {

// What the handler sees of a connection, for one request.
class ConnectionExchange final : public Exchange {
 public:
  // Takes over a body's count.
  ConnectionExchange(std::shared_ptr<Connection> connection,
                     std::shared_ptr<std::atomic<size_t>> bodies_bytes, size_t* body_bytes)
      : connection_(std::move(connection)),
        bodies_bytes_(std::move(bodies_bytes)),
        body_bytes_(std::exchange(*body_bytes, 0)) {}
  ~ConnectionExchange() override { *bodies_bytes_ -= body_bytes_; }
  ConnectionExchange(const ConnectionExchange&) = delete;
  ConnectionExchange& operator=(const ConnectionExchange&) = delete;

  void reply(Reply reply) override {
    connection_->guard([&] { connection_->reply(reply); });
  }
  void reply(Reply reply, NextText next) override {
    connection_->guard([&] { connection_->reply(std::move(reply), std::move(next)); });
  }
  void begin_events(NextText next) override {
    connection_->guard([&] { connection_->begin_events(std::move(next)); });
  }
  void wake() override {
    connection_->guard([&] { connection_->pump(); });
  }
  void end_for_memory() override { connection_->end_answer_for_memory(); }
  [[nodiscard]] bool is_gone() const override { return connection_->is_gone(); }
  void when_gone(std::function<void()> told) override {
    connection_->set_when_gone(std::move(told));
  }
  void note(std::string text) override { connection_->note = std::move(text); }

 private:
  std::shared_ptr<Connection> connection_;
  std::shared_ptr<std::atomic<size_t>> bodies_bytes_;
  size_t body_bytes_;
};

}  // namespace

// Reading ----------------------------------------------------------------------------------------

// Something is always being read while an answer is made, so that the client's leaving is seen;
// what it sends meanwhile is its next request. One that sends more ahead than is kept is read on
// and told that its connection closes.
void Connection::read() {
  if (is_reading_) return;
  if (hears_end_) {
    if (state_ != State::kAnswering && state_ != State::kClosing) close();
    return;
  }
  constexpr size_t kFewBytes = size_t{4} << 10;
  const size_t n_most = buffer_.max_size() - buffer_.size();
  if (n_most == 0) return on_body_error(http::error::buffer_overflow);  // a chunk's extensions
  const auto room =
      buffer_.prepare(std::min(n_most, state_ == State::kBody ? kReadBytes : kFewBytes));
  is_reading_ = true;
  socket_.async_read_some(
      room, stored_in(read_memory_, [self = shared_from_this()](ErrorCode error, size_t n) {
        self->is_reading_ = false;
        self->guard([&] { self->on_read(error, n); });
      }));
}

void Connection::on_read(ErrorCode error, size_t n) {
  if (!error && !is_dropping_ && state_ != State::kLingering) buffer_.commit(n);
  switch (state_) {
    case State::kIdle:
    case State::kHeader:
      return error ? close() : read_header();
    case State::kBody:
      return error ? close() : read_body();
    case State::kAnswering:
      if (error) return hear_end(error);
      if (buffer_.size() >= limits_.ahead_bytes) {
        is_dropping_ = true;
        keeps_alive_ = false;
      }
      return read();
    case State::kClosing:
      hears_end_ = hears_end_ || error;
      return;
    case State::kLingering:
      return error ? close() : read();
    case State::kClosed:
      return;
  }
}

void Connection::begin_request() {
  state_ = State::kIdle;
  since_ms_ = monotonic_ms();
  if (server_->is_stopping) return close();
  is_http11_ = true;
  is_head_request_ = false;
  head_ = {};
  extra_.clear();
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
  parser_->body_limit(limits_.body_bytes);
  parser_->eager(false);
  set_deadline(limits_.idle_seconds);
  // Room to say that there is no memory. The two are swapped as they are sent.
  unsent_.reserve(kSpareBytes);
  sending_.reserve(kSpareBytes);
  if (buffer_.size() > 0) return read_header();
  read();
}

void Connection::read_header() {
  if (state_ == State::kIdle) {
    // Empty lines before a request are nothing.
    const auto next = [this](size_t i) {
      return static_cast<const char*>(buffer_.data().data())[i];
    };
    while (buffer_.size() >= 2 && next(0) == '\r' && next(1) == '\n') buffer_.consume(2);
    if (buffer_.size() == 0 || (buffer_.size() == 1 && next(0) == '\r')) return read();
    // The first bytes of a request start the clock of its header.
    state_ = State::kHeader;
    since_ms_ = monotonic_ms();
    started_seconds_ = monotonic_seconds();
    set_deadline(limits_.header_seconds);
  }
  ErrorCode error;
  buffer_.consume(parser_->put(buffer_.data(), error));
  if (error == http::error::need_more) return read();
  if (error) return on_header_error(error);
  Reply refusal;
  if (!take_head(&refusal)) return refuse(refusal);
  begin_body();
}

void Connection::on_header_error(ErrorCode error) {
  if (error == http::error::header_limit) {
    return refuse(ErrorKind::kHeaderTooLarge,
                  text_of("the header is longer than %zu bytes", limits_.header_bytes));
  }
  if (error == http::error::body_limit) {
    return refuse(ErrorKind::kTooLarge,
                  text_of("the body is longer than %zu bytes", limits_.body_bytes));
  }
  refuse(ErrorKind::kInvalidRequest, "this is no HTTP/1.1 request");
}

// False: the request is refused before its body is read.
bool Connection::take_head(Reply* refusal) {
  const auto& message = parser_->get();
  is_http11_ = message.version() >= kHttp11;
  keeps_alive_ = message.keep_alive();
  is_head_request_ = message.method() == http::verb::head;
  head_.method = std::string(message.method_string());
  std::string target(message.target());
  head_.authority = take_authority(&target);
  const size_t question = target.find('?');
  head_.path = target.substr(0, question);
  if (question != std::string::npos) head_.query = target.substr(question + 1);
  bool is_twice = false;
  head_.host = only_value(message, http::field::host, &is_twice);
  head_.origin = only_value(message, http::field::origin, &is_twice);
  if (!is_http11_ && message.count(http::field::host) == 0) head_.host = "localhost";
  head_.has_origin = message.count(http::field::origin) > 0;
  head_.authorization = only_value(message, http::field::authorization, &is_twice);
  head_.content_type = only_value(message, http::field::content_type, &is_twice);
  head_.content_encoding = only_value(message, http::field::content_encoding, &is_twice);
  const auto key = message.find("X-Api-Key");
  if (key != message.end()) head_.api_key = std::string(key->value());
  ErrorCode ignored;
  asio::ip::address local = socket_.local_endpoint(ignored).address();
  if (local.is_v6() && local.to_v6().is_v4_mapped()) {
    local = asio::ip::make_address_v4(asio::ip::v4_mapped, local.to_v6());
  }
  head_.local_address = local.to_string();
  const auto refuse_with = [refusal](ErrorKind kind, const char* text) {
    *refusal = ApiError(kind, text).reply();
    return false;
  };
  const bool has_encoding = message.count(http::field::transfer_encoding) > 0;
  if (is_twice || (is_http11_ && head_.host.empty())) {
    return refuse_with(ErrorKind::kInvalidRequest, "a header field is missing or there twice");
  }
  if (!target.starts_with('/') && target != "*") {
    return refuse_with(ErrorKind::kInvalidRequest, "the target is no path");
  }
  if (!has_visible_text_only(target)) {
    return refuse_with(ErrorKind::kInvalidRequest, "the target has a character that none can have");
  }
  if (has_encoding && (!beast::iequals(message[http::field::transfer_encoding], "chunked") ||
                       !is_http11_ || message.count(http::field::transfer_encoding) > 1)) {
    return refuse_with(ErrorKind::kInvalidRequest, "bodies can be chunked, and nothing else");
  }
  extra_ = server_->handler->headers_for(head_);
  if (!server_->handler->accepts(head_, refusal)) return false;
  const std::uint64_t length = parser_->content_length().value_or(0);
  if (length > limits_.body_bytes) {
    *refusal = ApiError(ErrorKind::kTooLarge,
                        text_of("the body is longer than %zu bytes", limits_.body_bytes))
                   .reply();
    return false;
  }
  if (head_.method == "POST" && !has_encoding && !parser_->content_length()) {
    return refuse_with(ErrorKind::kLengthRequired, "say how long the body is: Content-Length");
  }
  return true;
}

void Connection::begin_body() {
  state_ = State::kBody;
  since_ms_ = monotonic_ms();
  set_deadline(limits_.body_seconds);
  const auto expect = parser_->get().find(http::field::expect);
  const bool waits = expect != parser_->get().end() && !parser_->is_done() && buffer_.size() == 0 &&
                     beast::iequals(expect->value(), "100-continue");
  if (waits && is_http11_) {
    unsent_ += "HTTP/1.1 100 Continue\r\n\r\n";
    write();
  }
  read_body();
}

void Connection::read_body() {
  while (!parser_->is_done()) {
    if (buffer_.size() == 0) return read();
    ErrorCode error;
    buffer_.consume(parser_->put(buffer_.data(), error));
    if (error == http::error::need_more) return read();
    if (error) return on_body_error(error);
    const size_t n_new = parser_->get().body().size() - body_bytes_;
    body_bytes_ += n_new;
    server_->count_body(n_new);
    if (state_ != State::kBody) return;
  }
  take_body();
}

void Connection::on_body_error(ErrorCode error) {
  if (error == http::error::body_limit) {
    return refuse(ErrorKind::kTooLarge,
                  text_of("the body is longer than %zu bytes", limits_.body_bytes));
  }
  if (error == boost::system::errc::not_enough_memory) return end_for_memory();
  refuse(ErrorKind::kInvalidRequest, "the body is not what its header says");
}

void Connection::drop_body() {
  guard([this] { refuse(ErrorKind::kUnavailable, "too many bodies are being read; try again"); });
}

void Connection::take_body() {
  state_ = State::kAnswering;
  deadline_ms_ = kNever;
  std::string body = std::move(parser_->get().body());
  parser_.reset();
  read();
  if (state_ != State::kAnswering) return;
  const auto exchange =
      std::make_shared<ConnectionExchange>(shared_from_this(), server_->bodies_bytes, &body_bytes_);
  server_->handler->handle(head_, std::move(body), exchange);
}

// Who has only closed its sending half cannot be told from who is gone: a session is not kept for
// it, but what is answered at once it may read.
void Connection::hear_end(ErrorCode error) {
  if (error != asio::error::eof || when_gone_) return close();
  hears_end_ = true;
}

void Connection::refuse(ErrorKind kind, const std::string& message) {
  refuse(ApiError(kind, message).reply());
}

// An answer to what was not read to its end, behind which nothing can be understood.
void Connection::refuse(const Reply& refusal) {
  state_ = State::kAnswering;
  keeps_alive_ = false;
  if (parser_) std::string().swap(parser_->get().body());
  reply(refusal);
}

void Connection::end_for_memory() {
  if (when_gone_) std::exchange(when_gone_, nullptr)();
  next_ = nullptr;
  try {
    if (is_sending() || (state_ == State::kAnswering && !is_streaming_)) {
      keeps_alive_ = false;
      status_ = server_->no_memory.status;
      unsent_ += server_->no_memory_text;
      return answered();
    }
    if (state_ == State::kAnswering && is_events_) {
      put_chunk(server_->no_memory_event);
      if (is_http11_) unsent_ += "0\r\n\r\n";
      return answered();
    }
  } catch (const std::bad_alloc&) {  // not even for that
  }
  close(kNoMemory);
}

// Answering --------------------------------------------------------------------------------------

std::string Connection::head_text(int status, const std::string& content_type,
                                  const std::vector<HeaderField>& more) {
  status_ = status;
  if (server_->is_stopping) keeps_alive_ = false;
  std::string text = text_of("HTTP/1.1 %d %s\r\n", status, reason_of(status));
  const auto put = [&text](const std::string& name, const std::string& value) {
    text += name;
    text += ": ";
    text += value;
    text += "\r\n";
  };
  if (!content_type.empty()) put("Content-Type", content_type);
  for (const HeaderField& field : more) put(field.name, field.value);
  for (const HeaderField& field : extra_) put(field.name, field.value);
  put("X-Content-Type-Options", "nosniff");
  if (!keeps_alive_) put("Connection", "close");
  if (keeps_alive_ && !is_http11_) put("Connection", "keep-alive");
  return text;
}

void Connection::reply(const Reply& given) {
  if (state_ != State::kAnswering || is_streaming_) return;
  const Reply* reply = &given;
  Reply refusal;
  const size_t n_bytes = given.body.size();
  if (n_bytes > limits_.text_bytes) {
    if (n_bytes > limits_.replies_bytes) {
      refusal = ApiError(ErrorKind::kTooLarge,
                         text_of("the answer is longer than %zu bytes; ask for less at once",
                                 limits_.replies_bytes))
                    .reply();
      reply = &refusal;
    } else if (server_->replies_bytes + n_bytes > limits_.replies_bytes) {
      refusal =
          ApiError(ErrorKind::kUnavailable, "too many answers wait to be taken; try again").reply();
      reply = &refusal;
    }
  }
  std::string head = head_text(reply->status, reply->content_type, reply->headers);
  if (reply->status != 204) head += text_of("Content-Length: %zu\r\n", reply->body.size());
  head += "\r\n";
  unsent_.reserve(unsent_.size() + head.size() + reply->body.size());  // all of it, or nothing
  unsent_ += head;
  if (!is_head_request_) unsent_ += reply->body;
  if (reply->body.size() > limits_.text_bytes) {
    reply_bytes_ = reply->body.size();
    server_->replies_bytes += reply_bytes_;
  }
  answered();
}

// What is short says how long it is.
void Connection::reply(Reply head, NextText next) {
  if (state_ != State::kAnswering || is_streaming_) return;
  next_ = std::move(next);
  if (!put_text(&head.body)) return reply(head);
  if (!is_http11_) keeps_alive_ = false;  // the end of the answer is that of the connection
  put_streaming_head(head_text(head.status, head.content_type, head.headers));
  put_chunk(head.body);
  write();
}

void Connection::begin_events(NextText next) {
  if (state_ != State::kAnswering) return;
  next_ = std::move(next);
  if (!is_http11_) keeps_alive_ = false;
  put_streaming_head(head_text(200, "text/event-stream; charset=utf-8",
                               {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}));
  is_events_ = true;
  put_chunk(kComment);
  wait_for_comment();
  write();
}

// From here on the answer has begun.
void Connection::put_streaming_head(std::string head) {
  if (is_http11_) head += "Transfer-Encoding: chunked\r\n";
  head += "\r\n";
  unsent_ += head;
  is_streaming_ = true;
}

// False: these are the last.
bool Connection::put_text(std::string* text) {
  while (text->size() < limits_.text_bytes) {
    const size_t n_before = text->size();
    if (!next_(text)) return false;
    if (text->size() == n_before) break;
  }
  return true;
}

void Connection::wait_for_comment() {
  constexpr int64_t kMsOfSecond = 1000;
  comment_ms_ = monotonic_ms() + kMsOfSecond * limits_.comment_seconds;
}

void Connection::put_chunk(std::string_view text) {
  if (text.empty()) return;
  constexpr size_t kFrameBytes = 32;
  unsent_.reserve(unsent_.size() + text.size() + kFrameBytes);  // a whole chunk, or nothing
  if (is_http11_) unsent_ += text_of("%zx\r\n", text.size());
  unsent_ += text;
  if (is_http11_) unsent_ += "\r\n";
}

// Asks for more when the client has taken what there was. Its turn ends with some text, as a write
// never completes before others have had theirs.
void Connection::pump() {
  if (state_ != State::kAnswering || !is_streaming_ || is_writing_) return;
  std::string text;
  const bool goes_on = put_text(&text);
  put_chunk(text);
  if (!goes_on) {
    if (is_http11_) unsent_ += "0\r\n\r\n";
    return answered();
  }
  if (text.empty()) return;
  if (is_events_) wait_for_comment();
  write();
}

void Connection::set_when_gone(std::function<void()> told) {
  if (state_ == State::kClosed) return told();
  when_gone_ = std::move(told);
  if (hears_end_ && state_ == State::kAnswering) close();
}

// The answer is complete in the buffers.
void Connection::answered() {
  when_gone_ = nullptr;
  next_ = nullptr;
  is_streaming_ = false;
  is_events_ = false;
  comment_ms_ = kNever;
  release_body();
  log();
  state_ = State::kClosing;
  set_deadline(limits_.drain_seconds);
  write();
}

void Connection::write() {
  if (is_writing_ || state_ == State::kClosed) return;
  if (unsent_.empty()) {
    if (state_ != State::kClosing) return;
    if (!keeps_alive_ || server_->is_stopping) return linger();
    std::string().swap(sending_);
    std::string().swap(unsent_);
    return begin_request();
  }
  is_writing_ = true;
  sending_.swap(unsent_);
  unsent_.clear();
  n_sent_ = 0;
  n_of_slice_ = 0;
  if (!is_sending()) set_deadline(limits_.drain_seconds);
  write_some();
}

void Connection::write_some() {
  socket_.async_write_some(
      asio::buffer(sending_) + n_sent_,
      stored_in(write_memory_, [self = shared_from_this()](ErrorCode error, size_t n) {
        self->guard([&] { self->on_written(error, n); });
      }));
}

void Connection::on_written(ErrorCode error, size_t n) {
  if (state_ == State::kClosed) return;
  if (error) return close();
  n_sent_ += n;
  n_of_slice_ += n;
  if (n_of_slice_ >= limits_.text_bytes) {
    n_of_slice_ = 0;
    set_deadline(limits_.drain_seconds);
  }
  if (n_sent_ < sending_.size()) return write_some();
  is_writing_ = false;
  sending_.clear();
  n_sent_ = 0;
  if (unsent_.empty()) release_reply();
  if (state_ == State::kAnswering) {
    deadline_ms_ = kNever;
    if (is_streaming_ && unsent_.empty()) return pump();
  }
  write();
}

// Lets the client read the answer before the connection is reset by what it still sends.
void Connection::linger() {
  ErrorCode ignored;
  socket_.shutdown(Tcp::socket::shutdown_send, ignored);
  constexpr int kLingerSeconds = 2;
  set_deadline(kLingerSeconds);
  state_ = State::kLingering;
  buffer_.clear();
  read();
}

// Time and end -----------------------------------------------------------------------------------

void Connection::set_deadline(int after_seconds) {
  constexpr int64_t kMsOfSecond = 1000;
  deadline_ms_ = monotonic_ms() + kMsOfSecond * after_seconds;
}

void Connection::on_tick(int64_t now_ms) {
  if (now_ms >= deadline_ms_) {
    deadline_ms_ = kNever;
    on_deadline();
  }
  if (now_ms < comment_ms_ || state_ != State::kAnswering) return;
  wait_for_comment();
  if (is_writing_) return;
  put_chunk(kComment);
  write();
}

void Connection::on_deadline() {
  if (is_sending()) {
    return refuse(ErrorKind::kTimeout, "the request took too long to arrive");
  }
  constexpr const char* kWhy = "cut off, as its client takes too little";
  // Its line in the log was written when the answer was complete.
  if (state_ == State::kClosing && is_writing_ && server_->options.log != nullptr) {
    server_->options.log(kWhy);
  }
  close(kWhy);
}

void Connection::release_body() {
  *server_->bodies_bytes -= body_bytes_;
  body_bytes_ = 0;
}

void Connection::release_reply() {
  server_->replies_bytes -= reply_bytes_;
  reply_bytes_ = 0;
}

void Connection::close(const char* why) {
  if (state_ == State::kClosed) return;
  const std::shared_ptr<Connection> self = shared_from_this();
  const bool is_cut = state_ == State::kAnswering;
  state_ = State::kClosed;
  is_gone_ = true;
  deadline_ms_ = kNever;
  comment_ms_ = kNever;
  release_body();
  release_reply();
  next_ = nullptr;
  ErrorCode ignored;
  socket_.close(ignored);
  server_->forget(self);
  if (!is_cut) return;
  if (when_gone_) std::exchange(when_gone_, nullptr)();
  try {
    if (!note.empty()) note += ", ";
    note += why;
  } catch (const std::bad_alloc&) {  // the line says less
  }
  log();
}

void Connection::log() noexcept {
  if (server_->options.log == nullptr) return;
  try {
    std::string line = text_of("%s %s %d", shown(head_.method.empty() ? "-" : head_.method).c_str(),
                               shown(head_.path.empty() ? "-" : head_.path).c_str(), status_);
    if (!note.empty()) line += ", " + note;
    line += text_of(", %.3f s", monotonic_seconds() - started_seconds_);
    note.clear();
    server_->options.log(line);
  } catch (const std::bad_alloc&) {  // a line that is not written
  }
}

// The server -------------------------------------------------------------------------------------

namespace {

// A descriptor for each connection, and those of the program itself.
void need_descriptors(size_t n_connections) {
  constexpr rlim_t kOthers = 32;
  const rlim_t wanted = n_connections + kOthers;
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  if (limit.rlim_max < wanted) {
    throw ProgramError(ExitCode::kIo,
                       text_of("this process may open %llu files and connections, and the server "
                               "needs %llu; raise ulimit -n",
                               static_cast<unsigned long long>(limit.rlim_max),
                               static_cast<unsigned long long>(wanted)));
  }
  limit.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

HttpServer::Impl::Impl(const HttpOptions& given, RequestHandler* its_handler)
    : options(given), handler(its_handler) {
  need_descriptors(options.limits.n_connections);
  ErrorCode error;
  const std::string host = options.host == "localhost" ? "127.0.0.1" : options.host;
  const asio::ip::address address = asio::ip::make_address(host, error);
  if (error) {
    throw ProgramError(ExitCode::kUsage, "--host " + shown(options.host) +
                                             " is no address; give one of this machine's, or "
                                             "localhost");
  }
  const Tcp::endpoint endpoint(address, options.port);
  const auto step = [&](const char* what) {
    if (error) {
      throw_system_error(
          error.value(),
          text_of("%s port %u", shown(options.host).c_str(), static_cast<unsigned>(options.port)),
          what);
    }
  };
  acceptor.open(endpoint.protocol(), error);
  step("cannot make a socket");
  acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (address.is_v6()) acceptor.set_option(asio::ip::v6_only(false), error);
  acceptor.bind(endpoint, error);
  step("cannot be had");
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  step("cannot listen");
}

void HttpServer::Impl::accept() {
  acceptor.async_accept(stored_in(accept_memory_, [this](ErrorCode error, Tcp::socket socket) {
    on_accepted(error, std::move(socket));
  }));
  accept_is_pending_ = true;
}

void HttpServer::Impl::on_accepted(ErrorCode error, Tcp::socket socket) {
  if (error == asio::error::operation_aborted) return;
  accept_is_pending_ = false;
  if (is_stopping) return;
  if (!error) {
    lacks_descriptors_ = false;
    accept();
    return welcome(std::move(socket));
  }
  // Out of descriptors: those that are closed meanwhile can be had again.
  constexpr std::chrono::milliseconds kPause{100};
  accept_is_pending_ = true;
  accept_again_.expires_after(kPause);
  accept_again_.async_wait(stored_in(pause_memory_, [this](ErrorCode wait_error) {
    accept_is_pending_ = false;
    if (!wait_error && !is_stopping) accept();
  }));
  if (!std::exchange(lacks_descriptors_, true) && options.log != nullptr) {
    options.log("cannot take a connection: " + error.message());
  }
}

void HttpServer::Impl::turn_away(Tcp::socket socket, const std::string& text) {
  ErrorCode ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(text), ignored);
}

void HttpServer::Impl::welcome(Tcp::socket socket) {
  ErrorCode ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
  // What the system has taken is what the client has, but for a little: else it takes megabytes
  // ahead, tells of room by the third of them, and who reads slowly looks like one who does not.
  using NotSent = asio::detail::socket_option::integer<IPPROTO_TCP, TCP_NOTSENT_LOWAT>;
  socket.set_option(NotSent(static_cast<int>(options.limits.text_bytes / 4)), ignored);
  if (connections_.size() >= options.limits.n_connections) {
    // Somebody who asks nothing makes room; else who has been sending its request for longest.
    std::shared_ptr<Connection> oldest;
    for (const std::shared_ptr<Connection>& each : connections_) {
      if (!each->is_idle() && !each->is_sending()) continue;
      const auto rank = [](const Connection& c) { return std::pair(!c.is_idle(), c.since_ms()); };
      if (oldest == nullptr || rank(*each) < rank(*oldest)) oldest = each;
    }
    if (oldest == nullptr) return turn_away(std::move(socket), too_many_text_);
    oldest->close();
  }
  std::shared_ptr<Connection> connection;
  try {
    connection = std::make_shared<Connection>(this);
    connections_.insert(connection);
  } catch (const std::bad_alloc&) {
    return turn_away(std::move(socket), no_memory_text);
  }
  connection->start(std::move(socket));
  if (!is_ticking_) wait_for_tick();
}

// One clock for all, while there are any: a second more or less is nothing to them.
void HttpServer::Impl::wait_for_tick() {
  constexpr std::chrono::milliseconds kTick{200};
  tick_.expires_after(kTick);
  tick_.async_wait(stored_in(tick_memory_, [this](ErrorCode error) {
    is_ticking_ = false;
    if (error) return;
    if (!connections_.empty()) wait_for_tick();
    const int64_t now_ms = monotonic_ms();
    for (auto next = connections_.begin(); next != connections_.end();) {
      const std::shared_ptr<Connection> each = *next++;  // which may end meanwhile
      each->guard([&] { each->on_tick(now_ms); });
    }
  }));
  is_ticking_ = true;
}

// The largest that still arrive make room, but for small ones, which the number of connections
// bounds.
void HttpServer::Impl::count_body(size_t n_bytes) {
  *bodies_bytes += n_bytes;
  while (*bodies_bytes > options.limits.bodies_bytes) {
    std::shared_ptr<Connection> largest;
    for (const std::shared_ptr<Connection>& each : connections_) {
      if (largest == nullptr || each->unfinished_bytes() > largest->unfinished_bytes()) {
        largest = each;
      }
    }
    if (largest == nullptr || largest->unfinished_bytes() <= options.limits.small_body_bytes)
      return;
    largest->drop_body();
  }
}

void HttpServer::Impl::forget(const std::shared_ptr<Connection>& connection) {
  connections_.erase(connection);
  leave_when_done();
}

void HttpServer::Impl::leave_when_done() {
  if (is_finishing_ && connections_.empty()) io.stop();
}

void HttpServer::Impl::stop_accepting() {
  is_stopping = true;
  ErrorCode ignored;
  acceptor.close(ignored);
  for (auto next = connections_.begin(); next != connections_.end();) {
    const std::shared_ptr<Connection> each = *next++;
    if (each->is_idle()) each->close();
  }
}

void HttpServer::Impl::finish(int patience_seconds) {
  is_finishing_ = true;
  leave_when_done();
  patience_.expires_after(seconds(patience_seconds));
  patience_.async_wait([this](ErrorCode error) {
    if (!error) io.stop();
  });
}

void HttpServer::Impl::run(std::function<void()> on_stop) {
  asio::signal_set signals(io, SIGINT, SIGTERM);
  // A program that nohup started outlives its terminal.
  struct sigaction at_hangup = {};
  ::sigaction(SIGHUP, nullptr, &at_hangup);
  if (at_hangup.sa_handler != SIG_IGN) signals.add(SIGHUP);
  signals.async_wait([&](ErrorCode error, int) {
    if (error) return;
    ErrorCode ignored;
    signals.clear(ignored);  // the next one ends the program
    on_stop();
  });
  // Connections may wait without any operation; finish ends it.
  const auto work = asio::make_work_guard(io);
  // What has no memory for its next step ends by its deadline; the others go on.
  while (!io.stopped()) {
    try {
      if (!accept_is_pending_ && !is_stopping) accept();
      if (!is_ticking_ && !connections_.empty()) wait_for_tick();
      io.run();
    } catch (const std::bad_alloc&) {
      constexpr std::chrono::milliseconds kPause{10};
      std::this_thread::sleep_for(kPause);  // others free some
      // The library may have lost the step that it had no memory for: accepting begins anew.
      ErrorCode ignored;
      acceptor.cancel(ignored);
      accept_is_pending_ = false;
    }
  }
  while (!connections_.empty()) {
    const std::shared_ptr<Connection> each = *connections_.begin();
    each->close();
  }
}

HttpServer::HttpServer(const HttpOptions& options, RequestHandler* handler)
    : impl_(std::make_unique<Impl>(options, handler)) {}

HttpServer::~HttpServer() = default;

std::string HttpServer::address() const {
  const Tcp::endpoint endpoint = impl_->acceptor.local_endpoint();
  const std::string host = endpoint.address().to_string();
  return "http://" + (endpoint.address().is_v6() ? "[" + host + "]" : host) + ":" +
         std::to_string(endpoint.port());
}

void HttpServer::run(std::function<void()> on_stop) { impl_->run(std::move(on_stop)); }

void HttpServer::post(std::function<void()> task) { asio::post(impl_->io, std::move(task)); }

std::unique_ptr<Waker> HttpServer::make_waker() {
  return std::make_unique<ServerWaker>(&impl_->io);
}

void HttpServer::stop_accepting() {
  post_surely(&impl_->io, [this] { impl_->stop_accepting(); });
}

void HttpServer::finish(int patience_seconds) {
  post_surely(&impl_->io, [this, patience_seconds] { impl_->finish(patience_seconds); });
}

}  // namespace cria::hosted
