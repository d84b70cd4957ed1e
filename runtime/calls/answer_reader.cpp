#include "runtime/calls/answer_reader.h"

#include <algorithm>

#include "quant/text/utf8.h"
#include "runtime/calls/marker.h"
#include "runtime/json/text_part.h"

namespace cria::calls {
namespace {

using format::CallString;

// Bytes that may be held for a marker: blanks in one may be many.
constexpr size_t kMostPending = 256;
// A call that comes to nothing is read again for markers inside it. So many bytes may be, for each
// byte of the answer: the cost has a bound.
constexpr size_t kReadAgain = 8;

uint32_t byte_of(char c) { return static_cast<uint8_t>(c); }

// Without the beginning of a character at the end.
size_t whole_characters(std::string_view text) {
  constexpr size_t kMostMissing = 3;
  for (size_t n = 1; n <= std::min(kMostMissing, text.size()); ++n) {
    const size_t at = text.size() - n;
    constexpr uint32_t kLead = 0xc0;
    if (byte_of(text[at]) >= kLead) {
      return decode_utf8(text.data() + at, n).complete ? text.size() : at;
    }
  }
  return text.size();
}

}  // namespace

void AnswerReader::make(const CallFormat& form, const Tools& tools, std::span<char> hold) {
  form_ = form;
  tools_ = tools;
  hold_ = hold;
  n_markers_ = 0;
  first_bytes_ = {};
  is_open_ = false;
  takes_calls_ = true;
  add_markers(CallString::kThinkingBegin, Role::kThinkingBegin);
  add_markers(CallString::kThinkingEnd, Role::kThinkingEnd);
  add_markers(CallString::kAnswerBegin, Role::kAnswerBegin);
  add_markers(CallString::kAnswerEnd, Role::kAnswerEnd);
  add_markers(CallString::kStart, Role::kStart);
  add_markers(CallString::kCallBegin, Role::kCallBegin);
  add_markers(CallString::kCallEnd, Role::kCallEnd);
  add_markers(CallString::kEnd, Role::kEnd);
}

void AnswerReader::add_markers(CallString string, Role role) {
  for (std::string_view list = form_.text(string); !list.empty();) {
    const std::string_view text = without_blanks(next_call_text(&list));
    markers_[n_markers_++] = {text, role};
    first_bytes_[byte_of(text.front()) / 32] |= uint32_t{1} << (byte_of(text.front()) % 32);
  }
}

bool AnswerReader::is_active(Role role) const {
  switch (role) {
    case Role::kThinkingBegin:
    case Role::kAnswerEnd:
      return !is_thinking_;
    case Role::kThinkingEnd:
      return is_thinking_;
    case Role::kStart:
      return takes_calls_;
    case Role::kCallBegin:
    case Role::kCallEnd:
    case Role::kEnd:
      return is_behind_call_;
    default:
      return true;
  }
}

void AnswerReader::begin(std::string_view opened) {
  head_ = tail_ = 0;
  n_opened_ = SIZE_MAX;
  n_read_again_ = hold_.size();
  blanks_[0] = blanks_[1] = {};
  n_calls_ = 0;
  is_thinking_ = is_in_call_ = is_call_told_ = is_behind_call_ = is_in_list_ = false;
  is_last_ = was_cut_ = is_cut_ = false;
  piece_kind_ = CRIA_CALLS_TEXT;
  n_piece_ = 0;
  read(opened, nullptr, nullptr);
  // Whole calls of the prompt are no calls of the answer, nor is one that was too long to hold.
  if (is_call_told_) {
    is_in_call_ = is_call_told_ = false;
    tail_ = head_;
  }
  is_behind_call_ = is_in_list_ = false;
  n_opened_ = held().size();
  n_calls_ = 0;
  is_open_ = true;
}

void AnswerReader::read(std::string_view text, cria_calls_tell_fn tell, void* context) {
  tell_fn_ = tell;
  context_ = context;
  append(text);
  tell_piece(false);
}

void AnswerReader::append(std::string_view text) {
  for (const char c : text) {
    if (tail_ == hold_.size()) {
      std::copy(hold_.begin() + static_cast<ptrdiff_t>(head_), hold_.end(), hold_.begin());
      tail_ -= head_;
      head_ = 0;
    }
    hold_[tail_++] = c;
    n_read_again_ += kReadAgain;
    advance();
  }
}

// Reads what is held as far as it goes, and leaves room for a byte.
void AnswerReader::advance() {
  while (head_ < tail_) {
    if (!is_in_call_) {
      if (!look()) return;
    } else if (n_scanned_ == held().size()) {
      if (n_scanned_ < hold_.size()) return;
      make_room();
    } else {
      switch (scan_.step(held()[n_scanned_], {}, nullptr)) {
        case Step::kMore:
          ++n_scanned_;
          break;
        case Step::kWhole:
          ++n_scanned_;
          finish_call();
          break;
        default:
          break_call();
          break;
      }
    }
  }
  if (head_ == tail_) head_ = tail_ = 0;
}

// Takes a marker, begins a call or takes a byte of text. False when what is held may become a
// marker.
bool AnswerReader::look() {
  const std::string_view text = held();
  const uint32_t first = byte_of(text.front());
  if ((first_bytes_[first / 32] >> (first % 32) & 1) != 0) {
    const Marker* longest = nullptr;
    size_t n_longest = 0;
    bool may_grow = false;
    for (size_t i = 0; i < n_markers_; ++i) {
      if (!is_active(markers_[i].role)) continue;
      size_t n_bytes = 0;
      const Match match = match_marker(markers_[i].text, text, &n_bytes);
      may_grow = may_grow || match == Match::kPart;
      if (match != Match::kWhole || n_bytes <= n_longest) continue;
      longest = &markers_[i];
      n_longest = n_bytes;
    }
    may_grow = may_grow && text.size() < kMostPending;
    if (may_grow && !is_last_) return false;
    if (longest != nullptr) {
      take(longest->role, n_longest);
      return true;
    }
    if (may_grow && was_cut_) {
      is_cut_ = true;
      drop(text.size());
      return true;
    }
  }
  if (begins_call(text.front())) {
    begin_call(0, is_behind_call_ ? CallPlace::kCall : CallPlace::kBare);
  } else if (is_behind_call_ && is_in_list_ && text.front() == ']') {
    is_in_list_ = false;
    drop(1);
  } else {
    make_text(1);
  }
  return true;
}

void AnswerReader::take(Role role, size_t n_bytes) {
  switch (role) {
    case Role::kStart:
      begin_call(n_bytes, CallPlace::kStart);
      return;
    case Role::kCallBegin:
      begin_call(n_bytes, CallPlace::kBegin);
      return;
    case Role::kThinkingBegin:
      is_thinking_ = true;
      break;
    case Role::kThinkingEnd:
    case Role::kAnswerBegin:
      is_thinking_ = false;
      break;
    case Role::kCallEnd:
    case Role::kEnd:
      // Blanks before it are no text's.
      blanks_[0].n_held = std::min(blanks_[0].n_held, n_blanks_before_);
      is_behind_call_ = is_behind_call_ && role == Role::kCallEnd;
      is_in_list_ = false;
      break;
    case Role::kAnswerEnd:
      break;
  }
  drop(n_bytes);
}

// Whether a call may begin that no marker starts.
bool AnswerReader::begins_call(char c) const {
  if (!does_objects() || is_thinking_ || !takes_calls_) return false;
  if (is_behind_call_) {
    const bool has_end = !form_.text(CallString::kEnd).empty();
    return c == '{' || c == ',' || c == ';' || (has_end && is_name_byte(c));
  }
  return form_.has(format::kCallsBare) && (c == '{' || c == '[') && !blanks_[0].has_text &&
         n_calls_ == 0 && n_opened_ != SIZE_MAX;
}

void AnswerReader::begin_call(size_t n_bytes, CallPlace place) {
  is_in_call_ = true;
  is_call_told_ = false;
  n_scanned_ = n_told_ = n_bytes;
  scan_.begin(&form_, &tools_, place);
  tell_ = scan_;
}

void AnswerReader::tell_beginning() {
  if (is_call_told_) return;
  is_call_told_ = true;
  is_thinking_ = false;
  tell_event(CRIA_CALLS_BEGIN, scan_.name(), scan_.id());
}

Writer AnswerReader::to_arguments() {
  return {[](void* context, char c) {
            static_cast<AnswerReader*>(context)->put_piece(CRIA_CALLS_ARGUMENTS, c);
          },
          this};
}

void AnswerReader::tell_arguments(bool is_all) {
  const Writer out = to_arguments();
  for (; n_told_ < n_scanned_; ++n_told_) {
    const std::string_view rest = json::part_of(held(), n_told_, n_scanned_ - n_told_);
    if (tell_.step(rest.front(), {rest, is_all}, &out) == Step::kUndecided) return;
  }
}

void AnswerReader::finish_call() {
  tell_beginning();
  tell_arguments(true);
  const Writer out = to_arguments();
  if (tell_.may_end()) tell_.end(&out);
  tell_event(CRIA_CALLS_END, {}, {});
  is_in_list_ = is_in_list_ || scan_.is_in_list();
  is_in_call_ = is_call_told_ = false;
  is_behind_call_ = true;
  n_blanks_before_ = blanks_[0].n_held;
  ++n_calls_;
  drop(n_scanned_);
}

// What has been scanned goes on as no call does.
void AnswerReader::break_call() {
  is_in_call_ = false;
  if (is_call_told_) {
    tell_arguments(true);
    tell_event(CRIA_CALLS_BROKEN, {}, {});
    is_call_told_ = is_behind_call_ = is_in_list_ = false;
    ++n_calls_;
    drop(n_scanned_);
  } else {
    const bool may_read_again = n_scanned_ <= n_read_again_;
    if (may_read_again) n_read_again_ -= n_scanned_;
    make_text(may_read_again ? 1 : n_scanned_);
  }
}

// The hold is full: tells what is known of a call, and goes on with what is not.
void AnswerReader::make_room() {
  if (scan_.name().empty()) {
    break_call();
    return;
  }
  tell_beginning();
  tell_arguments(false);
  if (n_told_ == 0) tell_arguments(true);
  const size_t n_told = n_told_;
  n_scanned_ -= n_told;
  n_told_ = 0;
  drop(n_told);
}

void AnswerReader::make_text(size_t n_bytes) {
  for (size_t i = n_opened_; i < n_bytes; ++i) put_text(held()[i]);
  drop(n_bytes);
}

void AnswerReader::drop(size_t n_bytes) {
  head_ += n_bytes;
  if (n_opened_ != SIZE_MAX) n_opened_ -= std::min(n_opened_, n_bytes);
}

bool AnswerReader::finish(bool was_cut, cria_calls_tell_fn tell, void* context) {
  tell_fn_ = tell;
  context_ = context;
  is_last_ = true;
  was_cut_ = was_cut;
  for (advance(); is_in_call_; advance()) {
    if (!was_cut && scan_.may_end()) {
      finish_call();
    } else if (!was_cut) {
      is_cut_ = is_cut_ || is_call_told_ || scan_.has_begun();
      break_call();
    } else {
      if (is_call_told_) tell_arguments(true);
      is_in_call_ = false;
      is_cut_ = true;
      drop(held().size());
    }
  }
  tell_piece(true);
  is_open_ = false;
  return is_cut_ || is_thinking_;
}

void AnswerReader::put_text(char c) {
  const cria_calls_kind kind = is_thinking_ ? CRIA_CALLS_THINKING : CRIA_CALLS_TEXT;
  Blanks& blanks = blanks_[is_thinking_ ? 1 : 0];
  const bool is_blank = is_call_blank(c);
  if (is_blank && !blanks.has_text) return;
  if (is_blank && blanks.n_held < sizeof blanks.held) {
    blanks.held[blanks.n_held++] = c;
    return;
  }
  for (size_t i = 0; i < blanks.n_held; ++i) put_piece(kind, blanks.held[i]);
  blanks.n_held = 0;
  blanks.has_text = true;
  if (!is_blank) is_behind_call_ = is_in_list_ = false;
  put_piece(kind, c);
}

void AnswerReader::put_piece(cria_calls_kind kind, char c) {
  if (kind != piece_kind_) tell_piece(true);
  piece_kind_ = kind;
  if (n_piece_ == piece_.size()) tell_piece(false);
  piece_[n_piece_++] = c;
}

void AnswerReader::tell_piece(bool is_all) {
  const size_t n = is_all ? n_piece_ : whole_characters({piece_.data(), n_piece_});
  if (n == 0) return;
  if (tell_fn_ != nullptr) {
    const cria_calls_event event = {piece_kind_, n_calls_, piece_.data(), n, nullptr, 0};
    tell_fn_(context_, &event);
  }
  std::copy(piece_.data() + n, piece_.data() + n_piece_, piece_.data());
  n_piece_ -= n;
}

void AnswerReader::tell_event(cria_calls_kind kind, std::string_view text, std::string_view id) {
  tell_piece(true);
  if (tell_fn_ == nullptr) return;
  const cria_calls_event event = {kind, n_calls_, text.data(), text.size(), id.data(), id.size()};
  tell_fn_(context_, &event);
}

}  // namespace cria::calls
