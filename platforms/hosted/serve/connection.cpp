#include "platforms/hosted/serve/connection.h"

#include <boost/asio/error.hpp>

#include <algorithm>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"

namespace cria::hosted {

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
  put_comment();
  write();
}

void Connection::on_deadline() {
  if (is_sending()) {
    return refuse(ErrorKind::kTimeout, "the request took too long to arrive");
  }
  cut_off("cut off, as its client takes too little");
}

void Connection::cut_off(const char* why) {
  // Its line in the log was written when the answer was complete.
  if (state_ == State::kClosing && is_writing_ && server_->options.log != nullptr) {
    server_->options.log(why);
  }
  close(why);
}

std::optional<Connection::Pace> Connection::pace(int64_t now_ms) const {
  const auto pace_of = [&](bool is_busy, size_t n_bytes, int64_t since_ms) {
    const int64_t passed_ms = std::max<int64_t>(now_ms - since_ms, 1);
    return Pace{passed_ms < limits_.new_ms, is_busy,
                static_cast<double>(n_bytes) / static_cast<double>(passed_ms), since_ms};
  };
  if (is_idle() || state_ == State::kLingering) return pace_of(false, 0, since_ms_);
  if (state_ == State::kHeader) return pace_of(true, header_bytes_ + buffer_.size(), since_ms_);
  if (state_ == State::kBody) return pace_of(true, body_bytes_, since_ms_);
  if (is_writing_) return pace_of(true, n_sent_, writing_since_ms_);
  return std::nullopt;
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

// Who has only closed its sending half cannot be told from who is gone: a session is not kept for
// it, but what is answered at once it may read.
void Connection::hear_end(ErrorCode error) {
  if (error != asio::error::eof || when_gone_) return close();
  hears_end_ = true;
}

void Connection::refuse(ErrorKind kind, const std::string& message) {
  refuse(ApiError(kind, message).reply(form_));
}

// An answer to what was not read to its end, after which nothing can be understood.
void Connection::refuse(const Reply& refusal) {
  state_ = State::kAnswering;
  keeps_alive_ = false;
  if (parser_) std::string().swap(parser_->get().body());
  reply(refusal);
}

void Connection::end_early(const Failure& failure) {
  if (failure.is_want_of_memory())
    return end_early_with(server_->no_memory.in(form_), kOutOfMemory);
  try {
    note = std::string("failed: ") + failure.what();
  } catch (const std::bad_alloc&) {  // the line says less
  }
  end_early_with(server_->failed.in(form_), kServerFailed);
}

void Connection::end_early_with(const EarlyEnd& end, const char* why) {
  next_ = nullptr;
  try {
    if (when_gone_) std::exchange(when_gone_, nullptr)();
    if (is_sending() || (state_ == State::kAnswering && !is_streaming_)) {
      keeps_alive_ = false;
      status_ = end.status;
      unsent_ += end.text;
      return answered();
    }
    if (state_ == State::kAnswering && is_objects_) {
      put_chunk(end.of_stream);
      if (is_http11_) unsent_ += "0\r\n\r\n";
      return answered();
    }
  } catch (...) {  // not even for that
  }
  close(why);
}

}  // namespace cria::hosted
