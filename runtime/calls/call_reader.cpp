#include "runtime/calls/call_reader.h"

#include <algorithm>

#include "runtime/calls/marker.h"
#include "runtime/json/text_part.h"

namespace cria::calls {
namespace {

using format::CallKind;
using format::CallString;
using json::part_of;

bool is_in(std::string_view text, std::string_view list) {
  while (!list.empty()) {
    if (next_call_text(&list) == text) return true;
  }
  return false;
}

std::string_view name_at_front(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && is_name_byte(text[n])) ++n;
  return part_of(text, 0, n);
}

// The first part of a marker: from its first blank on others come after blanks or none.
std::string_view first_part(std::string_view marker) {
  return part_of(marker, 0, marker.find_first_of(" \n\t\r"));
}

// Runs a value of JSON or Python, with nothing else around it.
bool run_literal(std::string_view text, const Writer* out) {
  ValueReader values;
  values.begin(Style::kPython, {}, out);
  for (size_t i = 0; i < text.size(); ++i) {
    const Step step = values.step(text[i], out);
    if (step == Step::kWhole) return i + 1 == text.size();
    if (step != Step::kMore) return false;
  }
  return values.end(out);
}

}  // namespace

enum class CallReader::State : uint8_t {
  // kJson and kPython:
  kItem,
  kFunction,
  kMember,
  kKey,
  kColon,
  kEntry,
  kEntryValue,
  kBehindEntry,
  // kNamed and kTagged:
  kMark,
  kHeader,
  kArguments,
  kArgumentsValue,
  // kTagged:
  kParameters,
  kParameterKey,
  kValueMark,
  kValueBegin,
  kValue,
  kDone,
};

// Of a member of an object that is a call.
enum class CallReader::Role : uint8_t { kOther, kName, kArguments, kId };

void CallReader::begin(const CallFormat* form, const Tools* tools, CallPlace place) {
  *this = {};
  form_ = form;
  tools_ = tools;
  place_ = place;
  const bool has_header = form->kind == CallKind::kNamed || form->kind == CallKind::kTagged;
  if (!has_header) {
    state_ = State::kItem;
    return;
  }
  mark_ = marker(CallString::kCallBegin);
  state_ = mark_.empty() || place == CallPlace::kBegin ? State::kHeader : State::kMark;
  if (state_ == State::kHeader) finder_.begin(marker(CallString::kArgumentsBegin));
}

Step CallReader::step(char c, const Ahead& ahead, const Writer* out) {
  for (;;) {
    const Step step = once(c, ahead, out);
    if (step != Step::kAgain) return step;
  }
}

Step CallReader::once(char c, const Ahead& ahead, const Writer* out) {
  switch (state_) {
    case State::kItem:
      return item(c);
    case State::kFunction:
      return function(c, out);
    case State::kMark:
      finder_.begin(marker(CallString::kArgumentsBegin));
      return mark(c, mark_, State::kHeader);
    case State::kHeader:
      return header(c);
    case State::kArguments:
      if (is_call_blank(c)) return Step::kMore;
      if (c != '{') return Step::kFail;
      values_.begin(form_->text(CallString::kStringMark).empty() ? Style::kJson : Style::kMarked,
                    marker(CallString::kStringMark), out);
      state_ = State::kArgumentsValue;
      return Step::kAgain;
    case State::kArgumentsValue:
      return values_.step(c, out);
    case State::kParameters:
      return parameters(c, out);
    case State::kParameterKey:
      return parameter_key(c, out);
    case State::kValueMark:
      return mark(c, mark_, State::kValueBegin);
    case State::kValueBegin:
      return begin_value(ahead, out);
    case State::kValue:
      if (finder_.step(c, [this, out](char other) { value_byte(other, out); })) {
        if (!is_literal_) writer_.end(out);
        state_ = State::kParameters;
      }
      return Step::kMore;
    default:
      return object(c, out);
  }
}

Step CallReader::item(char c) {
  if (is_call_blank(c)) return Step::kMore;
  const bool is_behind_call = place_ == CallPlace::kCall;
  if (is_behind_call ? !has_separator_ && (c == ',' || c == ';') : !is_in_list_ && c == '[') {
    has_separator_ = is_behind_call;
    is_in_list_ = !is_behind_call;
    return Step::kMore;
  }
  if (c == '{') {
    state_ = State::kMember;
    return Step::kMore;
  }
  state_ = State::kFunction;
  return is_name_byte(c) ? Step::kAgain : Step::kFail;
}

Step CallReader::function(char c, const Writer* out) {
  constexpr std::string_view kBuiltIn = ".call";  // of Llama's own tools
  if (is_name_byte(c)) {
    append(c);
    return Step::kMore;
  }
  if (c != '(') return Step::kFail;
  std::string_view name = text();
  if (name.ends_with(kBuiltIn) && !tools_->has(name)) name.remove_suffix(kBuiltIn.size());
  if (!set_name(name)) return Step::kFail;
  values_.begin(Style::kArguments, {}, out);
  state_ = State::kArgumentsValue;
  return Step::kMore;
}

Step CallReader::object(char c, const Writer* out) {
  const bool is_in_string = state_ == State::kKey || state_ == State::kEntryValue;
  if (!is_in_string && is_call_blank(c)) return Step::kMore;
  const Writer to_text = this->to_text();
  switch (state_) {
    case State::kMember:
      if (c == '}' && !has_members_) return finish_object(out);
      if (c != '"') return Step::kFail;
      has_members_ = true;
      n_text_ = 0;
      values_.begin(Style::kPlain, {}, nullptr);
      state_ = State::kKey;
      return Step::kAgain;
    case State::kKey: {
      const Step step = values_.step(c, &to_text);
      if (step != Step::kWhole) return step;
      role_ = role_of(text());
      if (form_->has(format::kCallsNameIsKey) && !set_name(text())) return Step::kFail;
      if (place_ == CallPlace::kBare && role_ == Role::kOther && text() != "type") {
        return Step::kFail;
      }
      state_ = State::kColon;
      return Step::kMore;
    }
    case State::kColon:
      state_ = State::kEntry;
      return c == ':' ? Step::kMore : Step::kFail;
    case State::kEntry:
      return begin_entry(c);
    case State::kEntryValue: {
      const bool is_text = role_ == Role::kName || role_ == Role::kId;
      const Step step = values_.step(c, is_text                     ? &to_text
                                        : role_ == Role::kArguments ? out
                                                                    : nullptr);
      if (step == Step::kMore || step == Step::kFail) return step;
      const Step finished = finish_entry();
      return finished == Step::kMore && step == Step::kAgain ? Step::kAgain : finished;
    }
    default:
      if (c == '}') return finish_object(out);
      state_ = State::kMember;
      return c == ',' ? Step::kMore : Step::kFail;
  }
}

CallReader::Role CallReader::role_of(std::string_view key) const {
  if (form_->has(format::kCallsNameIsKey)) return Role::kArguments;
  if (is_in(key, form_->text(CallString::kNameKeys))) return Role::kName;
  if (is_in(key, form_->text(CallString::kArgumentsKeys))) return Role::kArguments;
  return is_in(key, form_->text(CallString::kIdKeys)) ? Role::kId : Role::kOther;
}

// Arguments may be null, an id a number that nobody needs.
Step CallReader::begin_entry(char c) {
  if (role_ == Role::kArguments && c == 'n') role_ = Role::kOther;
  if (role_ == Role::kId && c != '"') role_ = Role::kOther;
  if (role_ == Role::kArguments) {
    if (c != '{' || has_arguments_) return Step::kFail;
    has_arguments_ = true;
  }
  n_text_ = 0;
  is_text_full_ = false;
  const bool is_text = role_ == Role::kName || role_ == Role::kId;
  values_.begin(is_text ? Style::kPlain : Style::kJson, {}, nullptr);
  state_ = State::kEntryValue;
  return Step::kAgain;
}

Step CallReader::finish_entry() {
  if (role_ == Role::kName && !set_name(text())) return Step::kFail;
  if (role_ == Role::kId) set_id(text());
  state_ = State::kBehindEntry;
  return Step::kMore;
}

Step CallReader::finish_object(const Writer* out) {
  if (n_name_ == 0) return Step::kFail;
  if (!has_arguments_) end(out);
  return Step::kWhole;
}

Step CallReader::mark(char c, std::string_view marker, State next) {
  if (n_text_ == 0 && is_call_blank(c)) return Step::kMore;
  append(c);
  size_t n_bytes = 0;
  const Match match = match_marker(marker, text(), &n_bytes);
  if (match == Match::kNone || is_text_full_) return Step::kFail;
  if (match == Match::kWhole) {
    n_text_ = 0;
    state_ = next;
  }
  return Step::kMore;
}

Step CallReader::header(char c) {
  if (form_->text(CallString::kArgumentsBegin).empty()) {
    if (n_text_ == 0 && is_call_blank(c)) return Step::kMore;
    if (!is_name_byte(c)) return finish_header(Step::kAgain);
    append(c);
  } else if (finder_.step(c, [this](char other) { append(other); })) {
    return finish_header(Step::kMore);
  }
  return is_text_full_ ? Step::kFail : Step::kMore;
}

Step CallReader::finish_header(Step step) {
  const std::string_view name_begin = marker(CallString::kNameBegin);
  const std::string_view id_begin = marker(CallString::kIdBegin);
  std::string_view rest = without_blanks(text());
  const bool is_id = form_->has(format::kCallsIdHoldsName);
  if (is_id) set_id(rest);
  if (const size_t at = rest.find(name_begin); at != std::string_view::npos) {
    if (at != 0 && !is_id) set_id(without_blanks(part_of(rest, 0, at)));
    rest = without_blanks(part_of(rest, at + name_begin.size()));
  } else if (!is_id) {
    return Step::kFail;
  }
  const std::string_view name = name_at_front(rest);
  if (!set_name(name)) return Step::kFail;
  rest.remove_prefix(name.size());
  if (const size_t at = rest.find(id_begin); !id_begin.empty() && at != std::string_view::npos) {
    set_id(without_blanks(part_of(rest, at + id_begin.size())));
  }
  n_text_ = 0;
  state_ = form_->kind == CallKind::kTagged ? State::kParameters : State::kArguments;
  return step;
}

Step CallReader::parameters(char c, const Writer* out) {
  if (n_text_ == 0 && is_call_blank(c)) return Step::kMore;
  append(c);
  bool is_part = false;
  for (const CallString string : {CallString::kKeyBegin, CallString::kCallEnd, CallString::kEnd}) {
    const std::string_view expected = marker(string);
    size_t n_bytes = 0;
    const Match match = expected.empty() ? Match::kNone : match_marker(expected, text(), &n_bytes);
    is_part = is_part || match == Match::kPart;
    if (match != Match::kWhole) continue;
    n_text_ = 0;
    if (string != CallString::kKeyBegin) {
      end(out);
      state_ = State::kDone;
      return Step::kWhole;
    }
    finder_.begin(first_part(marker(CallString::kKeyEnd)));
    state_ = State::kParameterKey;
    return Step::kMore;
  }
  return is_part && !is_text_full_ ? Step::kMore : Step::kFail;
}

Step CallReader::parameter_key(char c, const Writer* out) {
  if (!finder_.step(c, [this](char other) { append(other); })) {
    return is_text_full_ ? Step::kFail : Step::kMore;
  }
  const std::string_view key = without_blanks(text());
  if (key.empty()) return Step::kFail;
  kind_ = tools_->kind_of(name(), key);
  put(out, has_arguments_ ? ',' : '{');
  has_arguments_ = true;
  writer_.begin(false, out);
  for (const char byte : key) writer_.byte(byte, out);
  writer_.end(out);
  put(out, ':');
  n_text_ = 0;
  const std::string_view key_end = marker(CallString::kKeyEnd);
  mark_ = without_blanks(part_of(key_end, first_part(key_end).size()));
  state_ = mark_.empty() ? State::kValueBegin : State::kValueMark;
  return Step::kMore;
}

Step CallReader::begin_value(const Ahead& ahead, const Writer* out) {
  const std::string_view value_end = marker(CallString::kValueEnd);
  is_literal_ = false;
  if (out != nullptr && kind_ != ParameterKind::kText) {
    finder_.begin(value_end);
    size_t n = 0;
    while (n < ahead.text.size() && !finder_.step(ahead.text[n], [](char) {})) ++n;
    if (n < ahead.text.size()) {
      const std::string_view value =
          without_blanks(part_of(ahead.text, 0, n + 1 - value_end.size()));
      const bool may_be = kind_ == ParameterKind::kAny || value == "null" || value == "None";
      is_literal_ = may_be && run_literal(value, nullptr) && run_literal(value, out);
    } else if (!ahead.is_all) {
      return Step::kUndecided;
    }
  }
  if (!is_literal_) writer_.begin(false, out);
  finder_.begin(value_end);
  is_first_ = true;
  has_newline_ = false;
  state_ = State::kValue;
  return Step::kAgain;
}

void CallReader::value_byte(char c, const Writer* out) {
  if (is_literal_) return;
  const bool is_newline = c == '\n';
  if (is_newline && is_first_ && form_->text(CallString::kKeyEnd).ends_with('\n')) {
    is_first_ = false;
    return;
  }
  is_first_ = false;
  if (has_newline_) writer_.byte('\n', out);
  has_newline_ = is_newline && form_->text(CallString::kValueEnd).starts_with('\n');
  if (!has_newline_) writer_.byte(c, out);
}

bool CallReader::has_begun() const {
  if (n_name_ > 0 || role_ != Role::kOther) return true;
  if (place_ != CallPlace::kStart && place_ != CallPlace::kBegin) return false;
  // What stands there is no name where it goes on after a blank.
  const bool may_have_blanks = state_ != State::kHeader || !marker(CallString::kNameBegin).empty();
  const std::string_view name = without_blanks(text());
  return may_have_blanks || std::none_of(name.begin(), name.end(), is_call_blank);
}

bool CallReader::may_end() const { return state_ == State::kParameters && n_text_ == 0; }

void CallReader::end(const Writer* out) {
  if (!has_arguments_) put(out, '{');
  put(out, '}');
}

void CallReader::append(char c) {
  is_text_full_ = is_text_full_ || n_text_ == sizeof text_;
  if (!is_text_full_) text_[n_text_++] = c;
}

Writer CallReader::to_text() {
  return {[](void* context, char c) { static_cast<CallReader*>(context)->append(c); }, this};
}

bool CallReader::set_name(std::string_view name) {
  if (name.empty() || name.size() > sizeof name_ || is_text_full_ || n_name_ != 0) return false;
  if (place_ == CallPlace::kBare && !tools_->has(name)) return false;
  std::copy(name.begin(), name.end(), name_);
  n_name_ = static_cast<uint8_t>(name.size());
  return true;
}

// One with other characters is not worth a call.
void CallReader::set_id(std::string_view id) {
  const auto is_fit = [](char c) { return c > ' ' && c < '\x7f'; };
  if (id.size() > sizeof id_ || !std::all_of(id.begin(), id.end(), is_fit)) return;
  std::copy(id.begin(), id.end(), id_);
  n_id_ = static_cast<uint8_t>(id.size());
}

}  // namespace cria::calls
