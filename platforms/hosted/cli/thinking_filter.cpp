#include "platforms/hosted/cli/thinking_filter.h"

namespace cria::hosted {
namespace {

constexpr std::string_view kOpen = "<think>";
constexpr std::string_view kClose = "</think>";
constexpr std::string_view kSpace = " \t\r\n";

}  // namespace

std::string_view ThinkingFilter::tag() const { return state_ == State::kBefore ? kOpen : kClose; }

void ThinkingFilter::put(std::string_view text) {
  if (text.empty()) return;
  sink_->put_part(text, state_ == State::kThinking ? Part::kThinking : Part::kAnswer);
}

void ThinkingFilter::open() {
  finish();
  state_ = State::kThinking;
}

void ThinkingFilter::close() {
  finish();
  state_ = State::kBehind;
}

void ThinkingFilter::feed(std::string_view text) {
  size_t begin = 0;  // of what is neither handed on nor held
  for (size_t at = 0; at < text.size() && state_ != State::kBehind; ++at) {
    const std::string_view wanted = tag();
    // A tag's first character is in it once, so that none of what was held begins another.
    if (n_matched_ > 0 && text[at] != wanted[n_matched_]) {
      put(wanted.substr(0, n_matched_));
      n_matched_ = 0;
      if (state_ == State::kBefore) state_ = State::kBehind;
      if (state_ == State::kBehind) break;
    }
    if (text[at] == wanted[n_matched_]) {
      if (n_matched_ == 0) put(text.substr(begin, at - begin));
      begin = at + 1;
      if (++n_matched_ == wanted.size()) end_tag();
    } else if (state_ == State::kBefore && kSpace.find(text[at]) == kSpace.npos) {
      state_ = State::kBehind;  // only an answer's beginning is a thought
    }
  }
  put(text.substr(begin));
}

void ThinkingFilter::end_tag() {
  const std::string_view ended = tag();
  const bool opens = state_ == State::kBefore;
  n_matched_ = 0;
  state_ = State::kThinking;
  put(ended);
  if (!opens) state_ = State::kBehind;
}

void ThinkingFilter::finish() {
  const std::string_view held = tag().substr(0, state_ == State::kBehind ? 0 : n_matched_);
  n_matched_ = 0;
  put(held);
}

}  // namespace cria::hosted
