#include <boost/asio/buffer.hpp>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/serve/connection.h"

namespace cria::hosted {

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
                    .reply(form_);
      reply = &refusal;
    } else if (server_->replies_bytes + n_bytes > limits_.replies_bytes) {
      refusal = ApiError(ErrorKind::kUnavailable, "too many answers wait to be taken; try again")
                    .reply(form_);
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

void Connection::begin_stream(NextText next) {
  if (state_ != State::kAnswering) return;
  next_ = std::move(next);
  if (!is_http11_) keeps_alive_ = false;
  put_streaming_head(head_text(200, content_type_of(form_),
                               {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}));
  is_objects_ = true;
  put_comment();
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

void Connection::put_comment() {
  if (form_ == WireForm::kEvents) put_chunk(kComment);
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
  if (is_objects_) wait_for_comment();
  write();
}

void Connection::set_when_gone(std::function<void()> told) {
  if (state_ == State::kClosed) return told();
  when_gone_ = std::move(told);
  if (hears_end_ && state_ == State::kAnswering) close();
}

// The answer is complete in the buffers. What told it counts them, until they are sent.
void Connection::answered() {
  when_gone_ = nullptr;
  is_streaming_ = false;
  is_objects_ = false;
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
    next_ = nullptr;
    if (!keeps_alive_ || server_->is_stopping) return linger();
    std::string().swap(sending_);
    std::string().swap(unsent_);
    return begin_request();
  }
  is_writing_ = true;
  writing_since_ms_ = monotonic_ms();
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
  since_ms_ = monotonic_ms();
  buffer_.clear();
  read();
}

}  // namespace cria::hosted
