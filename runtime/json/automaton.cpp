#include "runtime/json/automaton.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "runtime/base/assert.h"
#include "runtime/json/narrow.h"

namespace cria::json {
namespace {

constexpr std::string_view kWords[] = {"null", "true", "false", "None", "True", "False"};
constexpr uint32_t kWordsOfJson = 3;  // then Python's
constexpr std::string_view kEscapes = "\"\\/bfnrt";
constexpr std::string_view kEscaped = "\"\\/\b\f\n\r\t";
constexpr uint8_t kLeastContinuation = 0x80;
constexpr uint8_t kMostContinuation = 0xbf;
constexpr uint32_t kPayload = 0x3f;

// What a reading of a string no longer needs once a character is whole.
void clear_character(Reading* r) {
  r->text = TextPhase::kPlain;
  r->character = 0;
  r->n_missing = 0;
  r->least = 0;
  r->most = 0;
}

}  // namespace

void Walk::begin(const Reading* readings, uint32_t n_readings, const Frame* frames,
                 uint32_t n_frames) {
  if (n_readings > 0) std::memcpy(readings_, readings, n_readings * sizeof(Reading));
  if (n_frames > 0) std::memcpy(frames_, frames, n_frames * sizeof(Frame));
  levels_[0] = {0, n_readings, n_frames};
}

void Walk::begin_document() {
  readings_[0] = schema_->rules == nullptr ? fresh(Phase::kValue, schema_->root, kNoFrame)
                                           : at_rule(Phase::kRule, schema_->rules->start, kAnyNode);
  levels_[0] = {0, 1, 0};
}

bool Walk::step(uint32_t n, char byte) {
  const Level& from = levels_[n];
  CRIA_ASSERT(n < kMostSteps && from.first + from.n + kMostReadings <= most_readings_);
  n_frames_ = from.n_frames;
  frames_before_ = from.n_frames;
  next_ = readings_ + from.first + from.n;
  n_next_ = 0;
  n_next_positions_ = 0;
  is_started_ = false;
  for (uint32_t i = 0; i < from.n; ++i) {
    const Reading& reading = readings_[from.first + i];
    n_steps_ += 1 + positions_of(reading);
    step_reading(reading, byte);
  }
  if (is_started_) forget_free_text();
  levels_[n + 1] = {from.first + from.n, n_next_, n_frames_};
  return n_next_ > 0;
}

bool Walk::may_end(uint32_t n) const {
  const Reading* const first = readings(n);
  const Rules* const rules = schema_->rules;
  return std::any_of(first, first + n_readings(n), [rules](const Reading& r) {
    if (rules == nullptr) return r.phase == Phase::kBehind && r.frame == kNoFrame;
    switch (r.phase) {
      case Phase::kRule:
      case Phase::kMarker:
      case Phase::kOpeningMarker:
        return rules->rules[r.rule].may_end;
      case Phase::kRun:
        return rules->rules[rules->rules[r.rule].next].may_end;
      default:
        return false;
    }
  });
}

void Walk::save(uint32_t n, Reading* readings, uint32_t* n_readings, Frame* frames,
                uint32_t* n_frames) const {
  const Level& level = levels_[n];
  // A frame's bit, then its place among those that are kept.
  uint64_t kept[(kMostFrames + kMostSteps * kMostReadings) / 64] = {};
  const auto is_kept = [&](uint32_t i) { return (kept[i / 64] >> (i % 64) & 1) != 0; };
  uint32_t n_kept = 0;
  uint32_t n_taken = 0;
  for (; n_taken < level.n; ++n_taken) {
    uint32_t n_new = 0;
    uint16_t frame = readings_[level.first + n_taken].frame;
    const uint16_t first = frame;
    for (; frame != kNoFrame && !is_kept(frame); frame = frames_[frame].parent) ++n_new;
    if (n_kept + n_new > kMostFrames) break;
    n_kept += n_new;
    for (frame = first; frame != kNoFrame && !is_kept(frame); frame = frames_[frame].parent) {
      kept[frame / 64] |= uint64_t{1} << (frame % 64);
    }
  }
  const auto place_of = [&](uint16_t frame) {
    if (frame == kNoFrame) return kNoFrame;
    uint32_t place = 0;
    for (uint32_t w = 0; w < frame / 64u; ++w)
      place += static_cast<uint32_t>(std::popcount(kept[w]));
    const uint64_t below = kept[frame / 64] & ((uint64_t{1} << (frame % 64)) - 1);
    return static_cast<uint16_t>(place + static_cast<uint32_t>(std::popcount(below)));
  };
  *n_frames = 0;
  for (uint32_t i = 0; i < level.n_frames; ++i) {
    if (!is_kept(i)) continue;
    Frame frame = frames_[i];
    frame.parent = place_of(frame.parent);
    frames[(*n_frames)++] = frame;
  }
  for (uint32_t i = 0; i < n_taken; ++i) {
    readings[i] = readings_[level.first + i];
    readings[i].frame = place_of(readings[i].frame);
  }
  *n_readings = n_taken;
}

void Walk::put(const Reading& reading) {
  for (uint32_t i = 0; i < n_next_; ++i) {
    if (std::memcmp(&next_[i], &reading, sizeof reading) == 0) return;
  }
  const uint32_t n_positions = positions_of(reading);
  if (n_next_ == kMostReadings || n_next_positions_ + n_positions > kMostPositionsAtOnce) return;
  n_next_positions_ += n_positions;
  next_[n_next_++] = reading;
}

uint32_t Walk::positions_of(const Reading& reading) const {
  const bool is_text = reading.phase == Phase::kText || reading.phase == Phase::kBareText;
  if (!is_text || reading.free_name != 0) return 0;
  const uint32_t pattern = schema_->nodes[reading.node].pattern;
  return pattern == kNone ? 0 : schema_->patterns[pattern].n_positions;
}

// A frame goes to a reading of its own: where there is room for the one there is for the other.
uint16_t Walk::push(const Frame& frame) {
  for (uint32_t i = frames_before_; i < n_frames_; ++i) {
    if (std::memcmp(&frames_[i], &frame, sizeof frame) == 0) return static_cast<uint16_t>(i);
  }
  CRIA_ASSERT(n_frames_ < most_frames_);
  frames_[n_frames_] = frame;
  return static_cast<uint16_t>(n_frames_++);
}

Reading Walk::fresh(Phase phase, uint32_t node, uint16_t frame) const {
  Reading r = {};
  r.node = node;
  r.frame = frame;
  r.phase = phase;
  return r;
}

uint32_t Walk::depth(uint16_t frame) const { return frame == kNoFrame ? 0 : frames_[frame].depth; }

bool Walk::fits(uint16_t frame, uint32_t node) const {
  return depth(frame) + schema_->nodes[node].depth <= kMostDepth;
}

uint16_t Walk::object_of(uint16_t frame) const {
  while (frames_[frame].kind == Frame::kNameFrame) frame = frames_[frame].parent;
  return frame;
}

uint32_t Walk::item_node(const Frame& array) const {
  const Node& n = schema_->nodes[array.node];
  return array.index < n.n_prefix ? schema_->links[n.first_prefix + array.index] : n.items;
}

// Properties come in the order of the schema: those up to the first that must be there.
bool Walk::is_candidate(const Frame& object, uint32_t property) const {
  const Node& n = schema_->nodes[object.node];
  if (property < object.index || object.index >= n.n_properties) return false;
  const Property* const properties = schema_->properties + n.first_property;
  return property <= properties[object.index].reach &&
         object.depth + schema_->nodes[properties[property].node].depth <= kMostDepth;
}

bool Walk::has_property(uint16_t frame) const {
  const Frame& object = frames_[frame];
  if (object.kind != Frame::kObjectFrame && object.kind != Frame::kArgumentsFrame) return false;
  for (uint32_t i = object.index; i < schema_->nodes[object.node].n_properties; ++i) {
    if (is_candidate(object, i)) return true;
  }
  return false;
}

bool Walk::may_be_free(uint16_t frame) const {
  const Frame& f = frames_[frame];
  return may_close(frame) && f.n_names < kMostFreeNames &&
         fits(frame, schema_->nodes[f.node].additional);
}

// Of an object: whether no property is missing. Free names come when none is.
bool Walk::may_close(uint16_t frame) const {
  const Frame& f = frames_[frame];
  if (f.kind == Frame::kNameFrame) return true;
  const Node& n = schema_->nodes[f.node];
  return f.index >= n.n_properties ||
         schema_->properties[n.first_property + f.index].reach == n.n_properties;
}

bool Walk::is_taken(uint16_t frame, uint32_t hash) const {
  for (; frames_[frame].kind == Frame::kNameFrame; frame = frames_[frame].parent) {
    if (frames_[frame].index == hash) return true;
  }
  const Node& n = schema_->nodes[frames_[frame].node];
  const Property* const first = schema_->properties + n.first_property;
  return std::any_of(first, first + n.n_properties,
                     [&](const Property& p) { return p.hash == hash; });
}

void Walk::step_reading(const Reading& r, char byte) {
  if (schema_->rules != nullptr && (is_special_ || r.phase >= Phase::kRule)) {
    step_rules(r, byte);
  } else {
    step_value(r, byte);
  }
}

void Walk::step_value(const Reading& r, char byte) {
  switch (r.phase) {
    case Phase::kSpaceOrValue:
      if (byte == ' ') {
        put(fresh(Phase::kValue, r.node, r.frame));
        return;
      }
      [[fallthrough]];
    case Phase::kValue:
      begin_value(r.node, r.frame, byte);
      return;
    case Phase::kFirstItem: {
      const Frame& array = frames_[r.frame];
      const Node& n = schema_->nodes[array.node];
      const uint32_t item = item_node(array);
      if (byte == ']') {
        if (n.least_items == 0) close(r.frame);
      } else if (n.most_items > 0 && fits(r.frame, item)) {
        begin_value(item, r.frame, byte);
      }
      return;
    }
    case Phase::kFirstName:
      if (byte == closing(r.frame) && may_close(r.frame)) close(r.frame);
      next_name(r.frame, byte);
      return;
    case Phase::kSpaceOrName:
      if (byte == ' ') put(fresh(Phase::kName, r.node, r.frame));
      [[fallthrough]];
    case Phase::kName:
      next_name(r.frame, byte);
      return;
    case Phase::kColon:
      if (byte == ':') put(fresh(Phase::kSpaceOrValue, r.node, r.frame));
      return;
    case Phase::kBehind:
      behind(r.frame, byte);
      return;
    case Phase::kWord:
      step_word(r, byte);
      return;
    case Phase::kDigits:
      step_number_of(r, byte);
      return;
    case Phase::kText:
      step_text(r, byte);
      return;
    case Phase::kLiteral:
      step_literal(r, byte);
      return;
    case Phase::kProperty:
      step_property(r, byte);
      return;
    default:
      return;
  }
}

void Walk::begin_value(uint32_t node, uint16_t frame, char byte) {
  const Node& n = schema_->nodes[node];
  if (n.n_options == 0) begin_leaf(node, frame, byte);
  for (uint32_t i = 0; i < n.n_options; ++i) {
    begin_leaf(schema_->links[n.first_option + i], frame, byte);
  }
}

void Walk::begin_leaf(uint32_t node, uint16_t frame, char byte) {
  const Node& n = schema_->nodes[node];
  const auto takes = [&n](uint32_t kind) { return (n.kinds & kind) != 0; };
  if (style() != ArgumentStyle::kJson && begin_styled(node, frame, byte)) return;
  if (takes(kLiterals)) {
    Reading r = fresh(Phase::kLiteral, node, frame);
    r.first = n.first_literal;
    r.last = n.first_literal + n.n_literals;
    step_literal(r, byte);
    return;
  }
  switch (byte) {
    case 'n':
    case 't':
    case 'f':
      if (takes(byte == 'n' ? kNull : kBoolean)) {
        Reading r = fresh(Phase::kWord, node, frame);
        r.first = byte == 'n' ? 0 : byte == 't' ? 1 : 2;
        step_word(r, byte);
      }
      return;
    case '"':
      if (takes(kString)) {
        Reading r = fresh(Phase::kText, node, frame);
        if (n.pattern != kNone) r.positions = pattern_start();
        put(r);
      }
      return;
    case '[':
      if (takes(kArray) && depth(frame) + n.array_depth <= kMostDepth) {
        open(Frame::kArrayFrame, node, frame, kNeverRule);
      }
      return;
    case '{':
      if (takes(kObject) && depth(frame) + n.object_depth <= kMostDepth) {
        open(Frame::kObjectFrame, node, frame, kNeverRule);
      }
      return;
    default:
      if (takes(kNumber)) {
        Reading r = fresh(Phase::kDigits, node, frame);
        r.number = {};
        step_number_of(r, byte);
      }
      return;
  }
}

// What the style writes in another way than JSON. False: it is JSON's.
bool Walk::begin_styled(uint32_t node, uint16_t frame, char byte) {
  const Node& n = schema_->nodes[node];
  if (style() == ArgumentStyle::kMarked) {
    const bool has_literals = (n.kinds & kLiterals) != 0;
    Reading r = fresh(Phase::kTag, node, frame);
    if (byte == schema_->rules->tag(Tag::kStringMark)[0]) {
      Reading literals = r;
      literals.first = n.first_literal;
      literals.last = n.first_literal + n.n_literals;
      const bool may_be = has_literals ? narrow_literals(&literals, '"') : (n.kinds & kString) != 0;
      if (may_be) put_tag(Tag::kStringMark, 1, r);
    }
    return byte == '"';
  }
  if (style() != ArgumentStyle::kPython || (n.kinds & kLiterals) != 0) return false;
  if (byte == 'n' || byte == 't' || byte == 'f') return true;
  if (byte != 'N' && byte != 'T' && byte != 'F') return false;
  if ((n.kinds & (byte == 'N' ? kNull : kBoolean)) != 0) {
    Reading r = fresh(Phase::kWord, node, frame);
    r.first = kWordsOfJson + (byte == 'N' ? 0 : byte == 'T' ? 1 : 2);
    step_word(r, byte);
  }
  return true;
}

void Walk::open(Frame::Kind kind, uint32_t node, uint16_t frame, uint8_t rule) {
  if (n_next_ == kMostReadings) return;
  const uint8_t n_names = frame == kNoFrame ? uint8_t{0} : frames_[frame].n_names;
  const auto inside = static_cast<uint8_t>(depth(frame) + 1);
  const uint16_t opened = push({node, 0, frame, kind, inside, n_names, rule, {}});
  put(fresh(kind == Frame::kArrayFrame ? Phase::kFirstItem : Phase::kFirstName, kAnyNode, opened));
}

void Walk::close(uint16_t frame) {
  const Frame& closed = frames_[object_of(frame)];
  if (closed.rule != kNeverRule) {
    arrive(closed.rule, kAnyNode);
  } else {
    put(fresh(Phase::kBehind, kAnyNode, closed.parent));
  }
}

// What ends an object.
char Walk::closing(uint16_t frame) const {
  const bool is_call =
      style() == ArgumentStyle::kPython && frames_[object_of(frame)].kind == Frame::kArgumentsFrame;
  return is_call ? ')' : '}';
}

void Walk::next_name(uint16_t frame, char byte) {
  if (is_bare(frame)) {
    begin_bare_name(frame, byte);
  } else if (byte == '"') {
    begin_name(frame);
  }
}

void Walk::behind_name(uint16_t frame, uint32_t node, TagValue in_tags) {
  if (!is_bare(frame)) {
    put(fresh(Phase::kColon, node, frame));
  } else if (style() == ArgumentStyle::kTagged) {
    Reading r = fresh(Phase::kTag, node, frame);
    r.last = static_cast<uint32_t>(in_tags);
    put_tag(Tag::kKeyEnd, 1, r);
  } else {
    put(fresh(Phase::kValue, node, frame));
  }
}

void Walk::behind(uint16_t frame, char byte) {
  if (frame == kNoFrame || n_next_ == kMostReadings) return;
  Frame f = frames_[frame];
  const Node& n = schema_->nodes[f.node];
  if (f.kind != Frame::kArrayFrame) {
    const bool is_tagged = style() == ArgumentStyle::kTagged &&
                           frames_[object_of(frame)].kind == Frame::kArgumentsFrame;
    if (is_tagged) {
      if (byte == schema_->rules->tag(Tag::kValueEnd)[0]) {
        put_tag(Tag::kValueEnd, 1, fresh(Phase::kTag, kAnyNode, frame));
      }
      return;
    }
    if (byte == closing(frame) && may_close(frame)) close(frame);
    if (byte == ',' && (has_property(frame) || may_be_free(frame))) {
      put(fresh(Phase::kSpaceOrName, kAnyNode, frame));
    }
    return;
  }
  // The item at hand is one more; there is a number for each.
  if (f.index < kEndless - 1) ++f.index;
  if (byte == ']' && f.index >= n.least_items) close(frame);
  const uint32_t item = item_node(f);
  if (byte == ',' && f.index < n.most_items && fits(frame, item)) {
    put(fresh(Phase::kSpaceOrValue, item, push(f)));
  }
}

void Walk::begin_name(uint16_t frame) {
  if (has_property(frame)) {
    Reading r = fresh(Phase::kProperty, frames_[frame].node, frame);
    r.last = schema_->nodes[r.node].n_properties;
    put(r);
  }
  if (may_be_free(frame)) {
    Reading r = fresh(Phase::kText, kAnyNode, frame);
    r.free_name = 1;
    r.hash = kHashStart;
    put(r);
  }
}

void Walk::step_word(Reading r, char byte) {
  const std::string_view word = kWords[r.first];
  if (word[r.place] != byte) return;
  ++r.place;
  put(r.place == word.size() ? fresh(Phase::kBehind, kAnyNode, r.frame) : r);
}

void Walk::step_literal(Reading r, char byte) {
  const auto text = [this](uint32_t i) { return schema_->part(schema_->literals[i]); };
  narrow(text, r.place, byte, &r.first, &r.last);
  if (r.first == r.last) return;
  ++r.place;
  // What can end comes before what goes on: the one is not left without the other.
  if (text(r.first).size() == r.place) {
    if (n_next_ == kMostReadings) return;
    put(fresh(Phase::kBehind, kAnyNode, r.frame));
  }
  if (text(r.last - 1).size() > r.place) put(r);
}

void Walk::step_property(Reading r, char byte) {
  const Frame object = frames_[r.frame];
  const Node& n = schema_->nodes[r.node];
  const uint32_t* const by_name = schema_->by_name + n.first_property;
  const Property* const properties = schema_->properties + n.first_property;
  const auto text = [&](uint32_t i) { return schema_->part(properties[by_name[i]].name); };
  if (is_bare(r.frame)) {
    // The quote after a name stands for what is.
    const char end = name_end(r.frame);
    if (byte == '"' && end != '"') return;
    if (byte == end) byte = '"';
  }
  narrow(text, r.place, byte, &r.first, &r.last);
  const bool is_possible = std::any_of(by_name + r.first, by_name + r.last,
                                       [&](uint32_t i) { return is_candidate(object, i); });
  if (!is_possible) return;
  ++r.place;
  if (text(r.first).size() > r.place) {
    put(r);
    return;
  }
  if (n_next_ == kMostReadings) return;
  // The quote ends only one name.
  Frame next = object;
  next.index = by_name[r.first] + 1;
  const Property& property = properties[by_name[r.first]];
  behind_name(push(next), property.node, property.in_tags);
}

void Walk::step_number_of(const Reading& from, char byte) {
  Reading r = from;
  const NumberRange& range = schema_->ranges[schema_->nodes[r.node].range];
  if (!step_number(range, byte, &r.number)) return;
  if (number_may_end(range, r.number)) {
    if (n_next_ == kMostReadings) return;
    put(fresh(Phase::kBehind, kAnyNode, r.frame));
  }
  put(r);
}

bool Walk::begin_character(const Reading& r) const {
  return r.free_name != 0 || r.n_characters < schema_->nodes[r.node].most_characters;
}

// Whether a character whose first bytes are there can be one that the pattern takes.
bool Walk::can_become(const Reading& r) const {
  const Node& n = schema_->nodes[r.node];
  if (r.free_name != 0 || n.pattern == kNone) return true;
  const uint32_t rest = 6 * (r.n_missing - uint32_t{1});
  const uint32_t low = (r.character << 6 | (r.least & kPayload)) << rest;
  const uint32_t high = (((r.character << 6 | (r.most & kPayload)) + 1) << rest) - 1;
  const Pattern& pattern = schema_->patterns[n.pattern];
  const PositionSet next = schema_->leads_on(
      n, pattern_followers(schema_->pools, pattern, r.positions), r.n_characters + 1);
  return pattern_takes(schema_->pools, pattern, next, {low, high});
}

bool Walk::end_character(Reading* r, uint32_t character) {
  clear_character(r);
  if (r->free_name != 0) return true;
  const Node& n = schema_->nodes[r->node];
  // Not counted further than anybody asks.
  if (n.most_characters != kEndless || r->n_characters < n.least_characters) ++r->n_characters;
  if (n.pattern == kNone) return true;
  const Pattern& pattern = schema_->patterns[n.pattern];
  const PositionSet next = pattern_followers(schema_->pools, pattern, r->positions);
  r->positions = schema_->leads_on(n, pattern_fitting(schema_->pools, pattern, next, character),
                                   r->n_characters);
  return !r->positions.empty();
}

void Walk::end_text(const Reading& r) {
  if (r.free_name != 0) {
    if (is_taken(r.frame, r.hash) || n_next_ == kMostReadings) return;
    const Frame f = frames_[r.frame];
    const auto n_names = static_cast<uint8_t>(f.n_names + 1);
    const uint16_t name =
        push({f.node, r.hash, r.frame, Frame::kNameFrame, f.depth, n_names, kNeverRule, {}});
    behind_name(name, schema_->nodes[f.node].additional, TagValue::kJson);
    return;
  }
  if (may_end_text(r)) put(fresh(Phase::kBehind, kAnyNode, r.frame));
}

bool Walk::may_end_text(const Reading& r) const {
  const Node& n = schema_->nodes[r.node];
  return r.text == TextPhase::kPlain && r.n_characters >= n.least_characters &&
         (n.pattern == kNone || schema_->patterns[n.pattern].ends.meets(r.positions));
}

void Walk::step_text(Reading r, char byte) {
  if (r.free_name == kBareName) {
    step_bare_name(r, byte);
    return;
  }
  if (style() == ArgumentStyle::kTagged) {
    // A reader looks for what ends the value in strings, too.
    const std::string_view mark = schema_->rules->part(schema_->rules->mark);
    uint32_t& n = r.free_name != 0 ? r.n_characters : r.place;
    n = step_mark(mark, n, byte);
    if (n == mark.size()) return;
  }
  if (r.text > TextPhase::kCharacter) {
    step_escape(r, byte);
    return;
  }
  if (r.text == TextPhase::kCharacter) {
    step_character(r, byte);
    return;
  }
  if (byte == '"') {
    end_text(r);
    return;
  }
  if (static_cast<uint8_t>(byte) < 0x20 || !begin_character(r)) return;
  if (byte == '\\') {
    r.text = TextPhase::kEscape;
    const bool is_possible = std::any_of(kEscaped.begin(), kEscaped.end(), [&](char escaped) {
      Reading behind = r;
      return end_character(&behind, static_cast<uint8_t>(escaped));
    });
    if (is_possible) put(r);
    return;
  }
  step_character(r, byte);
}

// A byte of a character, where one can stand.
void Walk::step_character(Reading r, char byte) {
  const auto c = static_cast<uint8_t>(byte);
  if (r.text == TextPhase::kCharacter) {
    if (c < r.least || c > r.most) return;
    if (r.free_name != 0) r.hash = add_to_hash(r.hash, c);
    r.character = r.character << 6 | (c & kPayload);
    r.least = kLeastContinuation;
    r.most = kMostContinuation;
    --r.n_missing;
    if (r.n_missing == 0 ? end_character(&r, r.character) : can_become(r)) put(r);
    return;
  }
  if (r.free_name != 0) r.hash = add_to_hash(r.hash, c);
  if (c < 0x80) {
    if (end_character(&r, c)) put(r);
    return;
  }
  if (c < 0xc2 || c > 0xf4) return;
  r.text = TextPhase::kCharacter;
  r.n_missing = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
  r.character = c & (kPayload >> r.n_missing);
  r.least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : kLeastContinuation;
  r.most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : kMostContinuation;
  if (can_become(r)) put(r);
}

void Walk::step_escape(Reading r, char byte) {
  switch (r.text) {
    case TextPhase::kEscape: {
      const size_t at = kEscapes.find(byte);
      if (at != std::string_view::npos) {
        const auto character = static_cast<uint8_t>(kEscaped[at]);
        if (r.free_name != 0) r.hash = add_to_hash(r.hash, character);
        if (end_character(&r, character)) put(r);
        return;
      }
      // Names are compared by their characters, patterns are held against them: there they are
      // written out.
      if (byte != 'u' || r.free_name != 0 || schema_->nodes[r.node].pattern != kNone) return;
      r.text = TextPhase::kHex;
      r.n_missing = 4;
      put(r);
      return;
    }
    case TextPhase::kLowSlash:
      if (byte != '\\') return;
      r.text = TextPhase::kLowLetter;
      put(r);
      return;
    case TextPhase::kLowLetter:
      if (byte != 'u') return;
      r.text = TextPhase::kHex;
      r.n_missing = 4;
      r.least = 1;
      put(r);
      return;
    default:
      step_hex(r, byte);
      return;
  }
}

// \uD800 to \uDBFF is followed by \uDC00 to \uDFFF, which stands nowhere else.
void Walk::step_hex(Reading r, char byte) {
  const uint32_t lower = static_cast<uint8_t>(byte) | 0x20u;
  const bool is_digit = byte >= '0' && byte <= '9';
  if (!is_digit && (lower < 'a' || lower > 'f')) return;
  const uint32_t digit = is_digit ? static_cast<uint32_t>(byte - '0') : lower - 'a' + 10;
  const bool is_low = r.least != 0;
  if (is_low && r.n_missing == 4 && digit != 0xd) return;
  if (is_low && r.n_missing == 3 && digit < 0xc) return;
  if (!is_low && r.n_missing == 3 && r.character == 0xd && digit >= 0xc) return;
  r.character = r.character << 4 | digit;
  if (--r.n_missing > 0) {
    put(r);
    return;
  }
  if (!is_low && r.character >= 0xd800 && r.character < 0xdc00) {
    clear_character(&r);
    r.text = TextPhase::kLowSlash;
    put(r);
    return;
  }
  if (end_character(&r, r.character)) put(r);
}

uint32_t plain_characters(const Schema& schema, const Reading& reading) {
  const bool is_text = reading.phase == Phase::kText || reading.phase == Phase::kBareText;
  if (!is_text || reading.text != TextPhase::kPlain || reading.free_name == kBareName) return 0;
  if (reading.free_name != 0) return kEndless;
  const Node& n = schema.nodes[reading.node];
  if (n.pattern != kNone) {
    if (n.first_alive != kNone) return 0;
    return schema.patterns[n.pattern].universal.meets(reading.positions) ? kEndless : 0;
  }
  return n.most_characters == kEndless ? kEndless : n.most_characters - reading.n_characters;
}

namespace {

bool frame_holds(const Schema& schema, const Frame* frames, uint32_t i) {
  const Frame& f = frames[i];
  if (f.node >= schema.n_nodes || f.kind > Frame::kArgumentsFrame) return false;
  if (f.rule != kNeverRule && (schema.rules == nullptr || f.rule >= schema.rules->n_rules)) {
    return false;
  }
  if (f.kind == Frame::kArgumentsFrame && schema.rules == nullptr) return false;
  if (f.parent != kNoFrame && f.parent >= i) return false;
  const Frame root = {};
  const Frame& parent = f.parent == kNoFrame ? root : frames[f.parent];
  const bool is_name = f.kind == Frame::kNameFrame;
  if (is_name &&
      (f.parent == kNoFrame || parent.kind == Frame::kArrayFrame || parent.node != f.node)) {
    return false;
  }
  return f.depth == parent.depth + (is_name ? 0 : 1) && f.depth <= kMostDepth &&
         f.n_names == parent.n_names + (is_name ? 1 : 0) && f.n_names <= kMostFreeNames;
}

bool number_holds(const NumberState& n) {
  return n.phase <= NumberState::Phase::kExponent && n.n_whole <= kMostDigits &&
         n.n_part <= kMostDigits && n.whole < kDigitsLimit && n.part < kDigitsLimit &&
         n.negative <= 1;
}

bool text_holds(const Schema& schema, const Reading& r) {
  if (r.free_name > kBareName || r.text > TextPhase::kLowLetter || r.n_missing > 4) return false;
  if (r.text == TextPhase::kCharacter && (r.n_missing == 0 || r.n_missing > 3)) return false;
  if (r.text == TextPhase::kHex && r.n_missing == 0) return false;
  const Node& n = schema.nodes[r.node];
  const bool is_watched =
      schema.rules != nullptr && schema.rules->mark.n_bytes > 0 && r.free_name != kBareName;
  if (is_watched && (r.free_name != 0 ? r.n_characters : r.place) >= schema.rules->mark.n_bytes) {
    return false;
  }
  if (r.free_name != 0) return r.free_name != kBareName || schema.rules != nullptr;
  if ((n.kinds & kString) == 0 || r.n_characters > n.most_characters) return false;
  if (n.pattern == kNone) return true;
  if (n.first_alive != kNone && n.most_characters == kEndless &&
      r.n_characters > n.least_characters) {
    return false;
  }
  bool is_within = true;
  for_each(r.positions, [&](uint32_t i) {
    is_within = is_within && i < schema.patterns[n.pattern].n_positions;
  });
  return is_within;
}

// Of a reading of rules.
bool rule_holds(const Rules& rules, const Reading& r) {
  if (r.rule >= rules.n_rules || r.frame != kNoFrame) return false;
  const Rule& rule = rules.rules[r.rule];
  const auto has_texts = [&](RuleKind kind) {
    return rule.kind == kind && r.place > 0 && r.first >= rule.first && r.first < r.last &&
           r.last <= uint32_t{rule.first} + rule.n &&
           r.place < rules.branches[r.first].text.n_bytes;
  };
  switch (r.phase) {
    case Phase::kRule:
      return true;
    case Phase::kToolName:
      return rule.kind == RuleKind::kName && r.first <= r.last && r.last <= rules.n_tools;
    case Phase::kRun:
      return r.place > 0 && r.place <= kMostIdBytes;
    case Phase::kTexts:
      return has_texts(RuleKind::kTexts);
    case Phase::kMarker:
      return has_texts(RuleKind::kFree);
    case Phase::kOpeningMarker:
      return has_texts(RuleKind::kOpening);
    default:
      return false;
  }
}

bool tag_holds(const Rules& rules, const Reading& r, bool in_object) {
  if (r.first >= kTagTexts || r.place >= rules.tags[r.first].n_bytes) return false;
  return in_object || static_cast<Tag>(r.first) == Tag::kStringMark;
}

bool styled_holds(const Schema& schema, const Reading& r, bool in_object) {
  if (schema.rules == nullptr) return false;
  const Rules& rules = *schema.rules;
  const Node& n = schema.nodes[r.node];
  const bool is_bare =
      rules.style == ArgumentStyle::kMarked || (rules.style == ArgumentStyle::kTagged && in_object);
  switch (r.phase) {
    case Phase::kTag:
      return tag_holds(rules, r, in_object);
    case Phase::kTags:
      return in_object && rules.style == ArgumentStyle::kTagged;
    case Phase::kBareText:
      return is_bare && r.free_name == 0 && r.text <= TextPhase::kCharacter &&
             text_holds(schema, r);
    case Phase::kBareLiteral:
      return is_bare && r.first >= n.first_literal && r.first <= r.last &&
             r.last <= n.first_literal + n.n_literals;
    default:
      return rule_holds(rules, r);
  }
}

bool reading_holds(const Schema& schema, const Reading& r, const Frame* frames, uint32_t n_frames) {
  if (r.node >= schema.n_nodes || (r.frame != kNoFrame && r.frame >= n_frames)) return false;
  const bool in_array = r.frame != kNoFrame && frames[r.frame].kind == Frame::kArrayFrame;
  const bool in_object = r.frame != kNoFrame && !in_array;
  const Node& n = schema.nodes[r.node];
  switch (r.phase) {
    case Phase::kValue:
    case Phase::kSpaceOrValue:
    case Phase::kBehind:
      return true;
    case Phase::kFirstItem:
      return in_array;
    case Phase::kFirstName:
    case Phase::kSpaceOrName:
    case Phase::kName:
    case Phase::kColon:
      return in_object;
    case Phase::kWord:
      return r.first < std::size(kWords) && r.place < kWords[r.first].size();
    case Phase::kDigits:
      return (n.kinds & kNumber) != 0 && number_holds(r.number);
    case Phase::kText:
      return text_holds(schema, r) && (r.free_name == 0 || in_object);
    case Phase::kLiteral:
      return r.first >= n.first_literal && r.first <= r.last &&
             r.last <= n.first_literal + n.n_literals;
    case Phase::kProperty:
      return in_object && frames[r.frame].kind != Frame::kNameFrame &&
             frames[r.frame].node == r.node && r.first <= r.last && r.last <= n.n_properties;
    default:
      return styled_holds(schema, r, in_object);
  }
}

}  // namespace

bool readings_hold(const Schema& schema, const Reading* readings, uint32_t n_readings,
                   const Frame* frames, uint32_t n_frames) {
  if (n_readings > kMostReadings || n_frames > kMostFrames) return false;
  for (uint32_t i = 0; i < n_frames; ++i) {
    if (!frame_holds(schema, frames, i)) return false;
  }
  return std::all_of(readings, readings + n_readings,
                     [&](const Reading& r) { return reading_holds(schema, r, frames, n_frames); });
}

}  // namespace cria::json
