// Reads the regexes of tokenizer.json: what the tokenizers library, which hands them to Oniguruma,
// takes them to mean, as far as a deterministic automaton can do the same.
//
//   a \n \x{3b1} . [a-z&&[^x]] \s \S \d \D \w \W \p{Lu} \P{Han} \p{^L}   one character
//   x|y  (x)  (?:x)  (?i:x)  (?i)x                                       groups
//   ?  *  +  {m}  {m,}  {,n}  {m,n}, lazy with another ?, and ?+ *+ ++   repetition
//   (?=x)  (?!x)  $                                                      one character ahead
//
// What is repeated with ?+ *+ ++ and what stands in (?=) and (?!) is one character. Under (?i)
// letters are ASCII. Everything else is refused: look behind, references, anchors, other flags.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "converter/code_points.h"

namespace cria::converter {

inline constexpr size_t kMaxRegexBytes = 1 << 14;
inline constexpr size_t kMaxRegexDepth = 32;  // of groups and classes
inline constexpr size_t kMaxRegexSets = 256;  // different ones
inline constexpr uint32_t kMaxRegexRepeat = 1 << 8;

// What is not supported and where; converter/pre_tokenizer_tables.h names the file.
class RegexError : public std::runtime_error {
 public:
  RegexError(size_t offset, const std::string& problem)
      : std::runtime_error("at byte " + std::to_string(offset) + ": " + problem) {}
};

enum class RegexKind : uint32_t {
  kSet,        // one character of a set
  kAhead,      // the next character is of a set, or the text ends and takes_end says that will do
  kConcat,     // parts one after the other
  kAlternate,  // the first part that leads to a match
  kRepeat,     // the one part, least to most times
};

enum class RepeatMode : uint32_t { kGreedy, kLazy, kPossessive };

inline constexpr uint32_t kRepeatForever = 0xffffffff;

struct RegexNode {
  RegexKind kind;
  size_t offset = 0;                 // in the regex, for messages
  uint32_t set = 0;                  // kSet, kAhead: in Regex::sets
  bool takes_end = false;            // kAhead
  std::vector<uint32_t> parts = {};  // in Regex::nodes
  RepeatMode mode = RepeatMode::kGreedy;
  uint32_t least = 0;
  uint32_t most = 0;
};

struct Regex {
  std::vector<RegexNode> nodes;
  uint32_t root = 0;
  std::vector<CodePoints> sets;  // all different
};

// Throws RegexError.
[[nodiscard]] Regex parse_regex(std::string_view text);

}  // namespace cria::converter
