// What the automaton reads of a schema with rules: texts around arguments, free text before them,
// and arguments that are not written as JSON.
#include <algorithm>
#include <iterator>

#include "quant/text/call_format.h"
#include "runtime/base/assert.h"
#include "runtime/json/automaton.h"
#include "runtime/json/narrow.h"
#include "runtime/json/text_part.h"

namespace cria::json {
namespace {

constexpr std::string_view kNullWord = "null";  // the first of kWord's

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_id_byte(char c) { return is_letter(c) || is_digit(c) || c == '-' || c == '_'; }
// Those of names that no quotes stand around.
bool is_name_byte(char c) { return is_id_byte(c) || c == '.' || c == '/'; }

// Beginnings of a string that text of its own may begin like: what stands in quotes has no blanks
// besides its own.
bool may_have_blanks(std::string_view text, uint32_t place) {
  const char before = text[place - 1];
  const auto n_quotes = std::count(text.begin(), text.begin() + place, '"');
  return n_quotes % 2 == 0 && !is_name_byte(before) && before != kNameRun;
}

bool is_in_quotes(std::string_view text, uint32_t place) {
  return std::count(text.begin(), text.begin() + place, '"') % 2 != 0;
}

}  // namespace

uint32_t step_mark(std::string_view mark, uint32_t n, char byte) {
  for (;;) {
    if (mark[n] == byte) return n + 1;
    if (n == 0) return 0;
    // The longest beginning that the n bytes end with, but for themselves.
    uint32_t kept = n - 1;
    while (kept > 0 && part_of(mark, 0, kept) != part_of(mark, n - kept, kept)) --kept;
    n = kept;
  }
}

bool Walk::is_free(const Reading& r) const {
  if (r.phase == Phase::kMarker || r.phase == Phase::kOpeningMarker) return true;
  if (r.phase != Phase::kRule) return false;
  const RuleKind kind = schema_->rules->rules[r.rule].kind;
  return kind == RuleKind::kFree || kind == RuleKind::kOpening;
}

void Walk::forget_free_text() {
  Reading* const end =
      std::remove_if(next_, next_ + n_next_, [this](const Reading& r) { return is_free(r); });
  n_next_ = static_cast<uint32_t>(end - next_);
}

bool Walk::is_in_text(uint32_t* rule) const {
  const Reading* const first = readings(0);
  const Reading* const found =
      std::find_if(first, first + n_readings(0), [this](const Reading& r) { return is_free(r); });
  if (found == first + n_readings(0)) return false;
  const Rule& free = schema_->rules->rules[found->rule];
  *rule = free.kind == RuleKind::kOpening ? free.next : found->rule;
  return true;
}

void Walk::begin_rule(uint32_t rule) {
  readings_[0] = at_rule(Phase::kRule, rule, kAnyNode);
  levels_[0] = {0, 1, 0};
}

bool Walk::is_between_markers() const {
  const Reading* const first = readings(0);
  return std::all_of(first, first + n_readings(0),
                     [this](const Reading& r) { return r.phase == Phase::kRule && is_free(r); });
}

bool Walk::leaves_text(uint32_t n) const {
  const Reading* const first = readings(n);
  return std::any_of(first, first + n_readings(n), [this](const Reading& r) {
    const bool begins = r.phase == Phase::kMarker && r.place == 1;
    const bool is_text =
        r.phase == Phase::kRule && schema_->rules->rules[r.rule].kind == RuleKind::kFree;
    return !begins && !is_text;
  });
}

bool Walk::stays_string(uint32_t n) const {
  const Reading* const first = readings(n);
  bool is_string = false;
  for (const Reading* r = first; r != first + n_readings(n); ++r) {
    if (r->phase != Phase::kText && r->phase != Phase::kBareText) continue;
    if ((r->free_name != 0 ? r->n_characters : r->place) > 1) return false;
    is_string = true;
  }
  return is_string;
}

Reading Walk::at_rule(Phase phase, uint32_t rule, uint32_t node) const {
  Reading r = fresh(phase, node, kNoFrame);
  r.rule = rule;
  return r;
}

void Walk::arrive(uint32_t rule, uint32_t node) {
  if (rule != kNeverRule) put(at_rule(Phase::kRule, rule, node));
}

// Of a special token what is no text of rules is nothing.
void Walk::step_rules(const Reading& r, char byte) {
  switch (r.phase) {
    case Phase::kRule:
      step_rule(r.rule, r.node, byte);
      return;
    case Phase::kTexts:
      step_texts(r, byte);
      return;
    case Phase::kToolName:
      if (!is_special_) step_tool_name(r, byte);
      return;
    case Phase::kRun: {
      const Rule& rule = schema_->rules->rules[r.rule];
      put_run(r, byte);
      if (rule.kind != RuleKind::kId || r.place >= rule.n) step_rule(rule.next, r.node, byte);
      return;
    }
    case Phase::kMarker:
      step_marker(r, byte);
      return;
    case Phase::kOpeningMarker:
      step_opening_marker(r, byte);
      return;
    case Phase::kTag:
      step_tag(r, byte);
      return;
    case Phase::kTags:
      begin_tag(r.frame, byte);
      if (may_close(r.frame)) step_rule(frames_[object_of(r.frame)].rule, kAnyNode, byte);
      return;
    case Phase::kBareText:
      step_bare_text(r, byte);
      return;
    case Phase::kBareLiteral:
      step_bare_literal(r, byte);
      return;
    case Phase::kValue:
    case Phase::kSpaceOrValue:
    case Phase::kFirstItem:
      if (style() == ArgumentStyle::kMarked && byte == schema_->rules->tag(Tag::kStringMark)[0]) {
        step_value(r, byte);
      }
      return;
    case Phase::kBehind:
      if (r.frame != kNoFrame && style() == ArgumentStyle::kTagged &&
          frames_[object_of(r.frame)].kind == Frame::kArgumentsFrame) {
        behind(r.frame, byte);
      }
      return;
    default:
      return;
  }
}

void Walk::step_rule(uint32_t first, uint32_t node, char byte) {
  const Rules& rules = *schema_->rules;
  uint8_t pending[kMostPending];
  uint32_t n_pending = 0;
  const auto push_rule = [&](uint32_t rule) {
    CRIA_ASSERT(n_pending < kMostPending);
    if (n_pending < kMostPending) pending[n_pending++] = static_cast<uint8_t>(rule);
  };
  push_rule(first);
  while (n_pending > 0) {
    const uint32_t at = pending[--n_pending];
    const Rule& rule = rules.rules[at];
    Reading r = at_rule(Phase::kTexts, at, node);
    switch (rule.kind) {
      case RuleKind::kNever:
      case RuleKind::kEnd:
        break;
      case RuleKind::kFork:
        for (uint32_t i = rule.n; i-- > 0;) push_rule(rules.alternatives[rule.first + i]);
        break;
      case RuleKind::kTexts:
        r.first = rule.first;
        r.last = uint32_t{rule.first} + rule.n;
        step_texts(r, byte);
        break;
      case RuleKind::kName:
        r.phase = Phase::kToolName;
        r.last = rules.n_tools;
        if (!is_special_) step_tool_name(r, byte);
        break;
      case RuleKind::kBlanks:
        r.phase = Phase::kRun;
        put_run(r, byte);
        push_rule(rule.next);
        break;
      case RuleKind::kId:
      case RuleKind::kIndex:
        r.phase = Phase::kRun;
        put_run(r, byte);
        break;
      case RuleKind::kArguments:
        if (rules.style == ArgumentStyle::kJson || rules.style == ArgumentStyle::kMarked) {
          begin_objects(node, rule.next, byte);
        } else if (n_next_ < kMostReadings) {
          const uint16_t frame =
              push({node, 0, kNoFrame, Frame::kArgumentsFrame, 1, 0, rule.next, {}});
          if (rules.style == ArgumentStyle::kTagged) {
            begin_tag(frame, byte);
            if (may_close(frame)) push_rule(rule.next);
          } else if (!is_special_) {
            if (byte == closing(frame) && may_close(frame)) close(frame);
            begin_bare_name(frame, byte);
          }
        }
        break;
      case RuleKind::kFree:
        if (!is_special_ || rule.may_end) arrive(at, kAnyNode);
        begin_markers(at, byte);
        break;
      case RuleKind::kOpening:
        step_opening(at, byte);
        if (!is_call_blank(byte)) push_rule(rule.other);
        break;
    }
  }
}

void Walk::step_texts(Reading r, char byte) {
  const Rules& rules = *schema_->rules;
  const auto text = [&rules](uint32_t i) { return rules.part(rules.branches[i].text); };
  narrow(text, r.place, byte, &r.first, &r.last);
  if (r.first == r.last) return;
  ++r.place;
  if (text(r.first).size() == r.place) {
    if (n_next_ == kMostReadings) return;
    arrive(rules.branches[r.first].next, r.node);
  }
  if (text(r.last - 1).size() > r.place) {
    while (text(r.first).size() == r.place) ++r.first;
    put(r);
  }
}

void Walk::step_tool_name(Reading r, char byte) {
  const Rules& rules = *schema_->rules;
  const auto text = [&](uint32_t i) { return schema_->part(rules.tools[i].name); };
  narrow(text, r.place, byte, &r.first, &r.last);
  if (r.first == r.last) return;
  ++r.place;
  if (text(r.first).size() == r.place) {
    if (n_next_ == kMostReadings) return;
    arrive(rules.rules[r.rule].next, rules.tools[r.first].node);
  }
  if (text(r.last - 1).size() > r.place) put(r);
}

// One more byte of a run, if it is one.
void Walk::put_run(Reading r, char byte) {
  const Rule& rule = schema_->rules->rules[r.rule];
  uint32_t most = 0;
  if (rule.kind == RuleKind::kBlanks && is_call_blank(byte)) most = kMostBlanks;
  if (rule.kind == RuleKind::kId && !is_special_) {
    if (rule.n == 0 && is_id_byte(byte)) most = kMostIdBytes;
    if (is_letter(byte) || is_digit(byte)) most = rule.n != 0 ? rule.n : kMostIdBytes;
  }
  if (rule.kind == RuleKind::kIndex && is_digit(byte) && !is_special_) most = kMostIndexDigits;
  ++r.place;
  if (r.place <= most) put(r);
}

void Walk::begin_markers(uint32_t rule, char byte) {
  const Rule& free = schema_->rules->rules[rule];
  Reading r = at_rule(Phase::kMarker, rule, kAnyNode);
  r.first = free.first;
  r.last = uint32_t{free.first} + free.n;
  narrow_marker(r, byte);
}

// One more byte of markers, no blank of theirs but one that stands in all of them.
void Walk::narrow_marker(Reading r, char byte) {
  const Rules& rules = *schema_->rules;
  const auto text = [&rules](uint32_t i) { return rules.part(rules.branches[i].text); };
  narrow(text, r.place, byte, &r.first, &r.last);
  if (r.first == r.last) return;
  ++r.place;
  if (text(r.first).size() > r.place) {
    put(r);
    return;
  }
  is_started_ = true;
  arrive(rules.branches[r.first].next, kAnyNode);
}

// A blank of a marker stands for any, or none.
void Walk::step_marker(const Reading& r, char byte) {
  const Rules& rules = *schema_->rules;
  if (is_call_blank(byte)) {
    Reading behind = r;
    if (behind.place + behind.n_missing >= kMostMarkerBytes) return;
    if (rules.part(rules.branches[r.first].text)[r.place - 1] == ' ') {
      ++behind.n_missing;
      put(behind);
    }
    narrow_marker(r, ' ');
    return;
  }
  narrow_marker(r, byte);
  Reading without = r;
  const auto text = [&rules](uint32_t i) { return rules.part(rules.branches[i].text); };
  narrow(text, without.place, ' ', &without.first, &without.last);
  if (without.first == without.last) return;
  ++without.place;
  narrow_marker(without, byte);
}

// Of a text that begins, what may be a call that no marker starts is followed beside it.
void Walk::step_opening(uint32_t rule, char byte) {
  const Rules& rules = *schema_->rules;
  const Rule& opening = rules.rules[rule];
  if (is_call_blank(byte)) {
    arrive(rule, kAnyNode);
    return;
  }
  const auto text = [&rules](uint32_t i) { return rules.part(rules.branches[i].text); };
  Reading r = at_rule(Phase::kOpeningMarker, rule, kAnyNode);
  r.first = opening.first;
  r.last = uint32_t{opening.first} + opening.n;
  narrow(text, 0, byte, &r.first, &r.last);
  r.place = 1;
  if (r.first < r.last) {
    put(r);
  } else {
    arrive(opening.next, kAnyNode);
  }
  begin_markers(opening.next, byte);
}

void Walk::step_opening_marker(Reading r, char byte) {
  const Rules& rules = *schema_->rules;
  const Rule& opening = rules.rules[r.rule];
  const auto text = [&rules](uint32_t i) { return rules.part(rules.branches[i].text); };
  const std::string_view any = text(r.first);
  begin_markers(opening.next, byte);
  if (is_call_blank(byte) && may_have_blanks(any, r.place)) {
    put(r);
    return;
  }
  // A key may be written with escapes: then it is no text either.
  if (byte == '\\' && is_in_quotes(any, r.place)) return;
  if (is_name_byte(byte) && any[r.place - 1] == kNameRun) {
    put(r);
    return;
  }
  Reading next = r;
  narrow(text, r.place, byte, &next.first, &next.last);
  if (next.first == next.last && is_name_byte(byte)) {
    next = r;
    narrow(text, r.place, kNameRun, &next.first, &next.last);
  }
  ++next.place;
  if (next.first == next.last) {
    arrive(opening.next, kAnyNode);
  } else if (text(next.first).size() > next.place) {
    put(next);
  } else {
    is_started_ = true;
  }
}

// The value of a call's arguments, which is an object.
void Walk::begin_objects(uint32_t node, uint8_t rule, char byte) {
  if (byte != '{' || is_special_) return;
  const Node& n = schema_->nodes[node];
  const auto begin = [&](uint32_t id) {
    const Node& leaf = schema_->nodes[id];
    if ((leaf.kinds & kObject) != 0 && leaf.object_depth <= kMostDepth) {
      open(Frame::kObjectFrame, id, kNoFrame, rule);
    }
  };
  if (n.n_options == 0) begin(node);
  for (uint32_t i = 0; i < n.n_options; ++i) begin(schema_->links[n.first_option + i]);
}

// Whether names of the object have no quotes.
bool Walk::is_bare(uint16_t frame) const {
  switch (style()) {
    case ArgumentStyle::kJson:
      return false;
    case ArgumentStyle::kMarked:
      return true;
    default:
      return frames_[object_of(frame)].kind == Frame::kArgumentsFrame;
  }
}

// The first byte after such a name.
char Walk::name_end(uint16_t frame) const {
  static_cast<void>(frame);
  switch (style()) {
    case ArgumentStyle::kPython:
      return '=';
    case ArgumentStyle::kTagged:
      return schema_->rules->tag(Tag::kKeyEnd)[0];
    default:
      return ':';
  }
}

void Walk::begin_bare_name(uint16_t frame, char byte) {
  if (has_property(frame)) {
    Reading r = fresh(Phase::kProperty, frames_[frame].node, frame);
    r.last = schema_->nodes[r.node].n_properties;
    step_property(r, byte);
  }
  if (may_be_free(frame) && is_name_byte(byte)) {
    Reading r = fresh(Phase::kText, kAnyNode, frame);
    r.free_name = kBareName;
    r.hash = kHashStart;
    step_bare_name(r, byte);
  }
}

void Walk::step_bare_name(Reading r, char byte) {
  if (byte == name_end(r.frame)) {
    end_text(r);
  } else if (is_name_byte(byte) && r.n_characters < kMostBareNameBytes) {
    ++r.n_characters;
    r.hash = add_to_hash(r.hash, static_cast<uint8_t>(byte));
    put(r);
  }
}

// The first bytes of a tag are there.
void Walk::put_tag(Tag which, uint32_t place, Reading r) {
  r.phase = Phase::kTag;
  r.first = static_cast<uint32_t>(which);
  r.place = place;
  if (schema_->rules->tag(which).size() > place) {
    put(r);
  } else {
    behind_tag(which, r);
  }
}

void Walk::behind_tag(Tag which, const Reading& r) {
  switch (which) {
    case Tag::kKeyBegin:
      put(fresh(Phase::kName, kAnyNode, r.frame));
      return;
    case Tag::kKeyEnd:
      if (static_cast<TagValue>(r.last) == TagValue::kJson) {
        put(fresh(Phase::kValue, r.node, r.frame));
      } else {
        begin_bare_value(r);
      }
      return;
    case Tag::kValueEnd:
      put(fresh(Phase::kTags, kAnyNode, r.frame));
      return;
    case Tag::kStringMark:
      if (r.last != 0) {
        put(fresh(Phase::kBehind, kAnyNode, r.frame));
      } else {
        begin_bare_leaf(r.node, r.frame);
      }
      return;
  }
}

void Walk::step_tag(const Reading& r, char byte) {
  const auto which = static_cast<Tag>(r.first);
  if (schema_->rules->tag(which)[r.place] == byte) put_tag(which, r.place + 1, r);
}

void Walk::begin_tag(uint16_t frame, char byte) {
  const bool may_follow = has_property(frame) || may_be_free(frame);
  if (may_follow && byte == schema_->rules->tag(Tag::kKeyBegin)[0]) {
    put_tag(Tag::kKeyBegin, 1, fresh(Phase::kTag, kAnyNode, frame));
  }
}

// A string without quotes.
void Walk::begin_bare_leaf(uint32_t node, uint16_t frame) {
  const Node& n = schema_->nodes[node];
  if ((n.kinds & kLiterals) != 0) {
    Reading r = fresh(Phase::kBareLiteral, node, frame);
    r.first = n.first_literal;
    r.last = n.first_literal + n.n_literals;
    if (narrow_literals(&r, '"')) put(r);
  } else if ((n.kinds & kString) != 0) {
    Reading r = fresh(Phase::kBareText, node, frame);
    if (n.pattern != kNone) r.positions = pattern_start();
    put(r);
  }
}

// A string between tags, or null.
void Walk::begin_bare_value(const Reading& from) {
  const Node& n = schema_->nodes[from.node];
  const bool may_be_null = static_cast<TagValue>(from.last) == TagValue::kTextOrNull;
  const auto begin = [&](uint32_t id) {
    begin_bare_leaf(id, from.frame);
    const Node& leaf = schema_->nodes[id];
    if (may_be_null && (leaf.kinds & kNull) != 0) put(fresh(Phase::kWord, id, from.frame));
    Reading null = fresh(Phase::kLiteral, id, from.frame);
    for (uint32_t i = 0; i < leaf.n_literals && may_be_null; ++i) {
      null.first = leaf.first_literal + i;
      null.last = null.first + 1;
      if (schema_->part(schema_->literals[null.first]) == kNullWord) put(null);
    }
  };
  if (n.n_options == 0) begin(from.node);
  for (uint32_t i = 0; i < n.n_options; ++i) begin(schema_->links[n.first_option + i]);
}

// The first byte of what ends a string without quotes.
void Walk::end_bare(const Reading& r, char byte) {
  const Tag which = style() == ArgumentStyle::kTagged ? Tag::kValueEnd : Tag::kStringMark;
  if (byte != schema_->rules->tag(which)[0]) return;
  Reading end = fresh(Phase::kTag, kAnyNode, r.frame);
  end.last = 1;
  put_tag(which, 1, end);
}

void Walk::step_bare_text(Reading r, char byte) {
  const std::string_view mark = schema_->rules->part(schema_->rules->mark);
  // What can end comes before what goes on: the one is not left without the other.
  if (n_next_ == kMostReadings) return;
  if (may_end_text(r)) end_bare(r, byte);
  if (is_special_) return;
  r.place = step_mark(mark, r.place, byte);
  if (r.place == mark.size()) return;
  if (r.text == TextPhase::kPlain) {
    const bool has_pattern = schema_->nodes[r.node].pattern != kNone;
    const bool is_control = static_cast<uint8_t>(byte) < 0x20 && !is_call_blank(byte);
    if ((is_control && !has_pattern) || !begin_character(r)) return;
  }
  step_character(r, byte);
}

// Narrows literals, which are written as JSON, by a byte of the string without quotes; a quote that
// stands for itself is the one at either end.
bool Walk::narrow_literals(Reading* r, char byte) const {
  const auto text = [this](uint32_t i) { return schema_->part(schema_->literals[i]); };
  narrow(text, r->place, byte, &r->first, &r->last);
  ++r->place;
  return r->first < r->last;
}

void Walk::step_bare_literal(Reading r, char byte) {
  Reading whole = r;
  if (narrow_literals(&whole, '"')) {
    if (n_next_ == kMostReadings) return;
    end_bare(r, byte);
  }
  if (is_special_) return;
  char written[6] = {byte};
  size_t n_written = 1;
  const auto c = static_cast<uint8_t>(byte);
  if (c < 0x80) n_written = put_json_character(c, written);
  for (size_t i = 0; i < n_written; ++i) {
    if (!narrow_literals(&r, written[i])) return;
  }
  put(r);
}

}  // namespace cria::json
