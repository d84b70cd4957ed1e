// What stands around the arguments of a call: texts, names and free text, one after the other. A
// schema with rules has the arguments of tools as values, written in a style.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/json/schema.h"

namespace cria::json {

// How arguments are written.
enum class ArgumentStyle : uint8_t {
  kJson,
  kPython,  // key=value, ...), with True, False and None
  kMarked,  // keys without quotes, strings between marks
  kTagged   // keys and values between texts, strings without quotes
};

enum class RuleKind : uint8_t {
  kNever,      // nothing follows
  kEnd,        // the answer ends
  kFork,       // one of alternatives [first, first + n), none of which comes back here
  kTexts,      // one of branches [first, first + n)
  kName,       // one of the tools' names, then next
  kArguments,  // of the tool that was named, then next
  kBlanks,     // none, or some; then next
  kId,         // n letters and digits, or where n is 0, some, - and _ among them; then next
  kIndex,      // a few digits; then next
  kFree,       // text up to one of branches, whose blanks stand for any
  kOpening     // nothing so far: free text of next, or other; text does not begin as a branch
};

struct Rule {
  RuleKind kind;
  bool may_end;  // the answer may end here; of kFree: it is text that nothing holds
  uint8_t next;
  uint8_t other;
  uint8_t first;
  uint8_t n;
};

// In the text of a branch of kOpening: name bytes, one or more.
inline constexpr char kNameRun = '\x01';

// Of a rule's, ascending by text.
struct Branch {
  TextPart text;  // in Rules::text
  uint8_t next;
};

inline constexpr uint32_t kMostRules = 160;
inline constexpr uint32_t kMostBranches = 160;
inline constexpr uint32_t kMostAlternatives = 192;
inline constexpr uint32_t kMostRuleText = 8192;
inline constexpr uint8_t kNeverRule = 0;
// Steps from fork to fork on the way to what is read.
inline constexpr uint32_t kMostPending = 32;
// In a row where blanks may stand; of an id; of an index.
inline constexpr uint32_t kMostBlanks = 32;
inline constexpr uint32_t kMostIdBytes = 64;
inline constexpr uint32_t kMostBareNameBytes = 64;
inline constexpr uint32_t kMostIndexDigits = 4;
// Of a marker in free text, with its blanks.
inline constexpr uint32_t kMostMarkerBytes = 255;

struct ToolEntry {
  TextPart name;  // in Schema::text, as it is written
  uint32_t node;  // of its arguments
};

// Texts inside of arguments.
enum class Tag : uint8_t { kKeyBegin, kKeyEnd, kValueEnd, kStringMark };
inline constexpr uint32_t kTagTexts = 4;

struct Rules {
  ArgumentStyle style;
  uint8_t start;  // where an answer begins
  uint8_t n_rules;
  uint8_t n_branches;
  uint8_t n_alternatives;
  uint32_t n_text;
  uint32_t n_tools;
  ToolEntry* tools;  // ascending by name
  TextPart tags[kTagTexts];
  TextPart mark;  // stands in no string: what ends a value in tags, or what stands around strings
  Rule rules[kMostRules];
  Branch branches[kMostBranches];
  uint8_t alternatives[kMostAlternatives];
  char text[kMostRuleText];

  [[nodiscard]] std::string_view part(TextPart p) const { return {text + p.offset, p.n_bytes}; }
  [[nodiscard]] std::string_view tag(Tag which) const {
    return part(tags[static_cast<size_t>(which)]);
  }
};

// Of bytes that end with the first n of a mark, and one more: with how many of it they end now. Its
// size: it is there.
[[nodiscard]] uint32_t step_mark(std::string_view mark, uint32_t n, char byte);

}  // namespace cria::json
