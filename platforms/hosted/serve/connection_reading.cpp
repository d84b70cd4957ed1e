#include <boost/asio/buffer.hpp>

#include <algorithm>
#include <cstring>
#include <iterator>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/connection.h"
#include "platforms/hosted/serve/connection_exchange.h"
#include "platforms/hosted/serve/http_text.h"

namespace cria::hosted {
namespace {

constexpr int kHttp11 = 11;

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

}  // namespace

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
      room, stored_in(read_memory_,
                      [self = shared_from_this(), place = room.data()](ErrorCode error, size_t n) {
                        self->is_reading_ = false;
                        self->guard([&] { self->on_read(error, place, n); });
                      }));
}

// A buffer that was emptied since the read began has begun anew at its front, in the same memory.
void Connection::keep(const void* place, size_t n) {
  std::memmove(buffer_.prepare(n).data(), place, n);
  buffer_.commit(n);
}

void Connection::on_read(ErrorCode error, const void* place, size_t n) {
  if (!error && !is_dropping_ && state_ != State::kLingering) keep(place, n);
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
  form_ = WireForm::kEvents;
  extra_.clear();
  header_bytes_ = 0;
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
  const size_t n_taken = parser_->put(buffer_.data(), error);
  buffer_.consume(n_taken);
  // The parser's own limit is of what it has not taken yet.
  header_bytes_ += n_taken;
  const bool goes_on = error == http::error::need_more;
  if (header_bytes_ + (goes_on ? buffer_.size() : 0) > limits_.header_bytes) {
    return on_header_error(http::error::header_limit);
  }
  if (goes_on) return read();
  if (error) return on_header_error(error);
  Reply refusal;
  if (!take_head(&refusal)) return refuse(refusal);
  begin_body();
}

void Connection::on_header_error(ErrorCode error) {
  if (error == http::error::header_limit) {
    return refuse(
        ErrorKind::kHeaderTooLarge,
        text_of("the header, with trailers, is longer than %zu bytes", limits_.header_bytes));
  }
  if (error == http::error::body_limit) {
    take_target();
    return on_body_error(error);
  }
  refuse(ErrorKind::kInvalidRequest, "this is not an HTTP/1.1 request");
}

// The method, what is asked for and in which form it is answered. Gives the target.
std::string Connection::take_target() {
  const auto& message = parser_->get();
  head_.method = std::string(message.method_string());
  std::string target(message.target());
  head_.authority = take_authority(&target);
  const size_t question = target.find('?');
  head_.path = target.substr(0, question);
  if (question != std::string::npos) head_.query = target.substr(question + 1);
  form_ = server_->handler->form_of(head_);
  return target;
}

// False: the request is refused before its body is read.
bool Connection::take_head(Reply* refusal) {
  const auto& message = parser_->get();
  is_http11_ = message.version() >= kHttp11;
  keeps_alive_ = message.keep_alive();
  is_head_request_ = message.method() == http::verb::head;
  const std::string target = take_target();
  bool is_twice = false;
  head_.host = only_value(message, http::field::host, &is_twice);
  head_.origin = only_value(message, http::field::origin, &is_twice);
  if (!is_http11_ && message.count(http::field::host) == 0) head_.host = "localhost";
  head_.has_origin = message.count(http::field::origin) > 0;
  head_.authorization = only_value(message, http::field::authorization, &is_twice);
  head_.content_type = lower(only_value(message, http::field::content_type, &is_twice));
  head_.content_encoding = lower(only_value(message, http::field::content_encoding, &is_twice));
  head_.accept = lower(message[http::field::accept]);
  const auto key = message.find("X-Api-Key");
  if (key != message.end()) head_.api_key = std::string(key->value());
  ErrorCode ignored;
  asio::ip::address local = socket_.local_endpoint(ignored).address();
  if (local.is_v6() && local.to_v6().is_v4_mapped()) {
    local = asio::ip::make_address_v4(asio::ip::v4_mapped, local.to_v6());
  }
  head_.local_address = local.to_string();
  const auto refuse_with = [this, refusal](ErrorKind kind, const char* text) {
    *refusal = ApiError(kind, text).reply(form_);
    return false;
  };
  const bool has_encoding = message.count(http::field::transfer_encoding) > 0;
  if (is_twice || (is_http11_ && head_.host.empty())) {
    return refuse_with(ErrorKind::kInvalidRequest, "a header field is missing or appears twice");
  }
  if (!target.starts_with('/') && target != "*") {
    return refuse_with(ErrorKind::kInvalidRequest, "the target is not a path");
  }
  if (!has_visible_text_only(target)) {
    return refuse_with(ErrorKind::kInvalidRequest,
                       "the target has a character that is not allowed in one");
  }
  if (!percent_decoded(target)) {
    return refuse_with(ErrorKind::kInvalidRequest,
                       "the target has a percent sign without two hexadecimal digits, or %00");
  }
  if (has_encoding && (!beast::iequals(message[http::field::transfer_encoding], "chunked") ||
                       !is_http11_ || message.count(http::field::transfer_encoding) > 1)) {
    return refuse_with(ErrorKind::kInvalidRequest,
                       "the only Transfer-Encoding that is read is chunked");
  }
  extra_ = server_->handler->headers_for(head_);
  if (!server_->handler->accepts(head_, refusal)) return false;
  const std::uint64_t length = parser_->content_length().value_or(0);
  if (length > limits_.body_bytes) {
    *refusal = ApiError(ErrorKind::kTooLarge,
                        text_of("the body is longer than %zu bytes", limits_.body_bytes))
                   .reply(form_);
    return false;
  }
  if (head_.method == "POST" && !has_encoding && !parser_->content_length()) {
    return refuse_with(ErrorKind::kLengthRequired, "the body has no length; send Content-Length");
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
    const size_t n_taken = parser_->put(buffer_.data(), error);
    buffer_.consume(n_taken);
    const bool goes_on = error == http::error::need_more;
    const size_t n_new = parser_->get().body().size() - body_bytes_;
    // What is no body is a chunk's header with its extensions, or the trailers as a whole.
    if (header_bytes_ + n_taken - n_new + (goes_on ? buffer_.size() : 0) > limits_.header_bytes) {
      return on_header_error(http::error::header_limit);
    }
    if (goes_on) return read();
    if (error) return on_body_error(error);
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
  if (error == boost::system::errc::not_enough_memory) {
    return end_early_with(server_->no_memory.in(form_), kOutOfMemory);
  }
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

}  // namespace cria::hosted
