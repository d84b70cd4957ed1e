// One client of the HTTP server. connection_reading.cpp has its requests, connection_writing.cpp
// the answers, connection.cpp its time and end.
#pragma once

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "platforms/hosted/base/clock.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/growing_body.h"
#include "platforms/hosted/serve/handler_memory.h"
#include "platforms/hosted/serve/http_server_impl.h"
#include "platforms/hosted/serve/http_types.h"
#include "platforms/hosted/serve/network_names.h"

namespace cria::hosted {

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
  // Ends it for others: its client takes or sends less than they might.
  void cut_off(const char* why);

  // What a client does while it is waited for; the least makes room for others.
  struct Pace {
    bool is_new;    // has had no time yet
    bool is_busy;   // sends its request or takes its answer
    double per_ms;  // bytes of that
    int64_t since_ms;
    auto operator<=>(const Pace& other) const = default;
  };
  // Nothing where it is not waited for: its answer is being made.
  [[nodiscard]] std::optional<Pace> pace(int64_t now_ms) const;

  [[nodiscard]] bool is_gone() const { return is_gone_; }  // from any thread
  // Of a body that still arrives.
  [[nodiscard]] size_t unfinished_bytes() const { return state_ == State::kBody ? body_bytes_ : 0; }
  void drop_body();

  // Of the exchange.
  void reply(const Reply& reply);
  void reply(Reply head, NextText next);
  void begin_stream(NextText next);
  void pump();
  void set_when_gone(std::function<void()> told);
  // The answer at hand.
  void end_answer_early(const Failure& failure) {
    if (state_ == State::kAnswering) end_early(failure);
  }

  // Runs a step. Whatever it throws ends only this exchange.
  template <typename Step>
  void guard(const Step& step) {
    try {
      step();
    } catch (...) {
      end_early(Failure::at_hand());
    }
  }

  std::string note;

 private:
  // Still sends its request.
  [[nodiscard]] bool is_sending() const {
    return state_ == State::kHeader || state_ == State::kBody;
  }

  enum class State { kIdle, kHeader, kBody, kAnswering, kClosing, kLingering, kClosed };

  static constexpr size_t kReadBytes = size_t{16} << 10;
  static constexpr size_t kSpareBytes = 512;
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  static constexpr const char* kComment = ": cria\n\n";

  void read();
  void keep(const void* place, size_t n);
  void on_read(ErrorCode error, const void* place, size_t n);
  void begin_request();
  void read_header();
  void on_header_error(ErrorCode error);
  std::string take_target();
  bool take_head(Reply* refusal);
  void begin_body();
  void read_body();
  void on_body_error(ErrorCode error);
  void take_body();
  void refuse(ErrorKind kind, const std::string& message);
  void refuse(const Reply& reply);
  void hear_end(ErrorCode error);
  // Ends what failed: with an error, where one can be told.
  void end_early(const Failure& failure);
  void end_early_with(const EarlyEnd& end, const char* why);
  void answered();
  [[nodiscard]] std::string head_text(int status, const std::string& content_type,
                                      const std::vector<HeaderField>& more);
  void put_streaming_head(std::string head);
  // Where the form has any.
  void put_comment();
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
  bool is_objects_ = false;  // of a stream, in its form
  WireForm form_ = WireForm::kEvents;
  bool is_reading_ = false;
  bool is_writing_ = false;
  bool is_dropping_ = false;  // what it sends ahead
  bool hears_end_ = false;    // the client's end of its requests came while they were read ahead
  int status_ = 0;
  size_t header_bytes_ = 0;            // taken by the parser
  size_t body_bytes_ = 0;              // counted in the server's
  size_t reply_bytes_ = 0;             // as well
  int64_t since_ms_ = monotonic_ms();  // idle, sending or lingering
  int64_t writing_since_ms_ = 0;       // is_writing_
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

}  // namespace cria::hosted
