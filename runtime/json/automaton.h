// The automaton that reads a document byte by byte and knows at each whether it can still become
// one that the schema allows. Where alternatives have not parted yet it follows several readings.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/json/rules.h"
#include "runtime/json/schema.h"

namespace cria::json {

inline constexpr uint32_t kMostReadings = 16;  // more than that: the last alternatives are dropped
inline constexpr uint32_t kMostFrames = 128;   // open containers and their free names, all readings
inline constexpr uint32_t kMostFreeNames = 90;  // of the containers that are open at once
static_assert(kMostDepth + kMostFreeNames <= kMostFrames);
inline constexpr uint16_t kNoFrame = 0xffff;

// Where a reading is.
enum class Phase : uint8_t {
  kValue,         // a value of node follows
  kSpaceOrValue,  // ... or one space before it
  kFirstItem,     // after [
  kFirstName,     // after {
  kSpaceOrName,   // after a comma
  kName,
  kColon,
  kBehind,    // after a value
  kWord,      // of true, false, null: place says which byte
  kDigits,    // node's
  kText,      // a string of node, or a free name
  kLiteral,   // one of first..last of node's
  kProperty,  // a property's name, one of first..last
  // Of schemas with rules:
  kRule,           // before a rule
  kTexts,          // one of its branches first..last
  kToolName,       // one of tools first..last
  kRun,            // of blanks, of an id or a number: place says how many bytes
  kMarker,         // what may be one of branches first..last, in free text
  kOpeningMarker,  // the same where an answer begins
  kTag,            // a text inside arguments: first says which, last what comes then
  kTags,           // between arguments in tags
  kBareText,       // a string without quotes; place: bytes of the mark that it ends with
  kBareLiteral,    // the same, one of first..last of node's
};

// Within a string.
enum class TextPhase : uint8_t { kPlain, kCharacter, kEscape, kHex, kLowSlash, kLowLetter };

// A container that is open, or a free name that one has. Never changes: what moves on is a new one.
struct Frame {
  // kArgumentsFrame: an object that is written as arguments are.
  enum Kind : uint8_t { kObjectFrame, kArrayFrame, kNameFrame, kArgumentsFrame };

  uint32_t node;
  uint32_t index;   // the next property, items before the one at hand, or the name's hash
  uint16_t parent;  // lower than its own number
  Kind kind;
  uint8_t depth;    // containers open
  uint8_t n_names;  // free names on the way to the root
  uint8_t rule;     // after it; kNeverRule: none, it is a part of a value
  uint8_t reserved[2];
};
static_assert(sizeof(Frame) == 16);

inline constexpr uint8_t kBareName = 2;  // a free name without quotes

// One reading. What its phase does not use is zero, so that equal ones are equal bytes.
struct Reading {
  uint32_t node;
  uint16_t frame;
  Phase phase;
  uint8_t free_name;  // kText: 1, or kBareName
  union {
    uint32_t first;  // kLiteral, kProperty; kWord: the word
    uint32_t n_characters;
  };
  union {
    uint32_t last;
    uint32_t character;  // its bits so far
  };
  union {
    uint32_t place;  // bytes of the literal read
    uint32_t hash;   // of the name so far
  };
  TextPhase text;
  uint8_t n_missing;  // bytes of the character, or digits
  uint8_t least;      // bounds of its next byte; kHex: nonzero when the lower half is at hand
  uint8_t most;
  union {
    PositionSet positions;
    NumberState number;
    uint32_t rule;
  };
};
static_assert(sizeof(Reading) == 56);

// Readings and frames on the way along a token: the readings after its first bytes, one list
// after the other.
class Walk {
 public:
  Walk(const Schema* schema, Reading* readings, uint32_t most_readings, Frame* frames,
       uint32_t most_frames)
      : schema_(schema),
        readings_(readings),
        most_readings_(most_readings),
        frames_(frames),
        most_frames_(most_frames) {}

  // Room that a walk along a token of n_bytes needs.
  static constexpr uint32_t readings_for(uint32_t n_bytes) { return (n_bytes + 1) * kMostReadings; }
  static constexpr uint32_t frames_for(uint32_t n_bytes) {
    return kMostFrames + n_bytes * kMostReadings;
  }

  void begin(const Reading* readings, uint32_t n_readings, const Frame* frames, uint32_t n_frames);
  // Where the readings and frames are in the walk's own room.
  void begin_there(uint32_t n_readings, uint32_t n_frames) {
    levels_[0] = {0, n_readings, n_frames};
  }
  void begin_document();

  // From the readings after n bytes to those after one more; false, and nothing, when there are
  // none. What was after longer beginnings is forgotten.
  bool step(uint32_t n, char byte);

  [[nodiscard]] const Reading* readings(uint32_t n) const { return readings_ + levels_[n].first; }
  [[nodiscard]] uint32_t n_readings(uint32_t n) const { return levels_[n].n; }
  // Moves readings of the document's beginning that are_wanted says to the front, and forgets all
  // others.
  template <typename AreWanted>
  void keep_readings(const AreWanted& are_wanted) {
    Level& level = levels_[0];
    uint32_t n = 0;
    for (uint32_t i = 0; i < level.n; ++i) {
      if (are_wanted(readings_[i])) readings_[n++] = readings_[i];
    }
    level.n = n;
  }
  // The bytes of special tokens are those of rules' texts, never of values.
  void walk_special(bool is_special) { is_special_ = is_special; }
  // The rule of text that nothing holds, at the document's beginning; false: there is none.
  [[nodiscard]] bool is_in_text(uint32_t* rule) const;
  // The document's beginning becomes that rule.
  void begin_rule(uint32_t rule);
  // Whether it is only text, in the middle of nothing that ends it.
  [[nodiscard]] bool is_between_markers() const;
  // Whether the document is in the middle of what ends free text after n bytes, or after it.
  [[nodiscard]] bool leaves_text(uint32_t n) const;
  // Whether some string is there after n bytes, and none ends with more of Rules::mark than a
  // byte.
  [[nodiscard]] bool stays_string(uint32_t n) const;
  // What was looked at so far: a reading and a byte, or a position of its pattern.
  [[nodiscard]] uint64_t n_steps() const { return n_steps_; }
  void add_steps(uint64_t n) { n_steps_ += n; }
  // Whether the document may end after n bytes.
  [[nodiscard]] bool may_end(uint32_t n) const;
  // Keeps only what follows n bytes; frames as few as are needed, readings dropped where they
  // are too many.
  void save(uint32_t n, Reading* readings, uint32_t* n_readings, Frame* frames,
            uint32_t* n_frames) const;
  // Bytes of a longest token that there may be.
  static constexpr uint32_t kMostSteps = 64;

 private:
  struct Level {
    uint32_t first;
    uint32_t n;
    uint32_t n_frames;
  };

  [[nodiscard]] ArgumentStyle style() const {
    return schema_->rules == nullptr ? ArgumentStyle::kJson : schema_->rules->style;
  }
  void put(const Reading& reading);
  [[nodiscard]] uint32_t positions_of(const Reading& reading) const;
  uint16_t push(const Frame& frame);
  [[nodiscard]] Reading fresh(Phase phase, uint32_t node, uint16_t frame) const;
  [[nodiscard]] uint32_t depth(uint16_t frame) const;
  [[nodiscard]] bool fits(uint16_t frame, uint32_t node) const;
  [[nodiscard]] uint16_t object_of(uint16_t frame) const;
  [[nodiscard]] bool has_property(uint16_t frame) const;
  [[nodiscard]] bool may_be_free(uint16_t frame) const;
  [[nodiscard]] bool may_close(uint16_t frame) const;
  [[nodiscard]] uint32_t item_node(const Frame& array) const;
  [[nodiscard]] bool is_candidate(const Frame& object, uint32_t property) const;
  [[nodiscard]] bool is_taken(uint16_t frame, uint32_t hash) const;

  void step_reading(const Reading& r, char byte);
  void step_value(const Reading& r, char byte);
  void begin_value(uint32_t node, uint16_t frame, char byte);
  void begin_leaf(uint32_t node, uint16_t frame, char byte);
  bool begin_styled(uint32_t node, uint16_t frame, char byte);
  void open(Frame::Kind kind, uint32_t node, uint16_t frame, uint8_t rule);
  void close(uint16_t frame);
  void behind(uint16_t frame, char byte);
  void begin_name(uint16_t frame);
  void next_name(uint16_t frame, char byte);
  [[nodiscard]] char closing(uint16_t frame) const;
  void behind_name(uint16_t frame, uint32_t node, TagValue in_tags);
  void step_word(Reading r, char byte);
  void step_literal(Reading r, char byte);
  void step_property(Reading r, char byte);
  void step_number_of(const Reading& r, char byte);
  void step_text(Reading r, char byte);
  void step_character(Reading r, char byte);
  void step_escape(Reading r, char byte);
  void step_hex(Reading r, char byte);
  void end_text(const Reading& r);
  bool end_character(Reading* r, uint32_t character);
  bool begin_character(const Reading& r) const;
  bool can_become(const Reading& r) const;
  bool may_end_text(const Reading& r) const;

  // Of schemas with rules:
  [[nodiscard]] bool is_free(const Reading& r) const;
  void forget_free_text();
  [[nodiscard]] Reading at_rule(Phase phase, uint32_t rule, uint32_t node) const;
  void arrive(uint32_t rule, uint32_t node);
  void step_rules(const Reading& r, char byte);
  void step_rule(uint32_t rule, uint32_t node, char byte);
  void step_texts(Reading r, char byte);
  void step_tool_name(Reading r, char byte);
  void put_run(Reading r, char byte);
  void begin_markers(uint32_t rule, char byte);
  void step_marker(const Reading& r, char byte);
  void narrow_marker(Reading r, char byte);
  void step_opening(uint32_t rule, char byte);
  void step_opening_marker(Reading r, char byte);
  void begin_objects(uint32_t node, uint8_t rule, char byte);
  [[nodiscard]] bool is_bare(uint16_t frame) const;
  [[nodiscard]] char name_end(uint16_t frame) const;
  void begin_bare_name(uint16_t frame, char byte);
  void step_bare_name(Reading r, char byte);
  void put_tag(Tag which, uint32_t place, Reading r);
  void behind_tag(Tag which, const Reading& r);
  void step_tag(const Reading& r, char byte);
  void begin_tag(uint16_t frame, char byte);
  void begin_bare_value(const Reading& from);
  void begin_bare_leaf(uint32_t node, uint16_t frame);
  void step_bare_text(Reading r, char byte);
  void step_bare_literal(Reading r, char byte);
  [[nodiscard]] bool narrow_literals(Reading* r, char byte) const;
  void end_bare(const Reading& r, char byte);

  const Schema* schema_;
  Reading* readings_;
  uint32_t most_readings_;
  Frame* frames_;
  uint32_t most_frames_;
  uint32_t n_frames_ = 0;
  uint32_t frames_before_ = 0;  // of the byte at hand
  Reading* next_ = nullptr;
  uint32_t n_next_ = 0;
  uint32_t n_next_positions_ = 0;  // of their patterns
  uint64_t n_steps_ = 0;
  bool is_special_ = false;
  bool is_started_ = false;  // what ends free text is there
  Level levels_[kMostSteps + 1] = {};
};

// How many plain characters (none of them a quote, a backslash, a control character or a line end)
// the strings at hand can go on with, whatever they are; kEndless: as many as one likes. 0 where
// that depends on which they are.
[[nodiscard]] uint32_t plain_characters(const Schema& schema, const Reading& reading);

// Whether readings and frames can be those of this schema: whatever else they are, nothing is read
// past a table.
[[nodiscard]] bool readings_hold(const Schema& schema, const Reading* readings, uint32_t n_readings,
                                 const Frame* frames, uint32_t n_frames);

}  // namespace cria::json
