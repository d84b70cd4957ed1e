// Regular expressions of "pattern", as sets of positions (Glushkov): a position is a character of
// the expression, a state is the set of those that may have been read last. Nothing is made
// deterministic, so an expression of n characters takes n rows and no more.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/base/status.h"

namespace cria::json {

inline constexpr uint32_t kMostPositions = 256;  // the start is the first
// Of patterns that are followed side by side: a schema whose strings have more is refused, and of
// readings that have not parted yet the last ones are dropped. One pattern always has room.
inline constexpr uint32_t kMostPositionsAtOnce = 2 * kMostPositions;
inline constexpr size_t kMostPatternBytes = 1024;
inline constexpr uint32_t kAsciiCharacters = 128;
inline constexpr uint32_t kLastCharacter = 0x10ffff;

struct PositionSet {
  uint64_t words[kMostPositions / 64];

  void add(uint32_t i) { words[i / 64] |= uint64_t{1} << (i % 64); }
  [[nodiscard]] bool has(uint32_t i) const { return (words[i / 64] >> (i % 64) & 1) != 0; }
  bool operator==(const PositionSet& other) const = default;
  [[nodiscard]] bool empty() const { return (words[0] | words[1] | words[2] | words[3]) == 0; }
  [[nodiscard]] bool meets(const PositionSet& other) const { return !(*this & other).empty(); }
  PositionSet& operator|=(const PositionSet& other) {
    for (size_t i = 0; i < 4; ++i) words[i] |= other.words[i];
    return *this;
  }
  PositionSet operator&(const PositionSet& other) const {
    PositionSet both = {};
    for (size_t i = 0; i < 4; ++i) both.words[i] = words[i] & other.words[i];
    return both;
  }
  [[nodiscard]] PositionSet shifted(uint32_t n) const;
};
static_assert(sizeof(PositionSet) == 32);

// Calls visit(i) for each member.
template <typename Visit>
void for_each(const PositionSet& set, const Visit& visit) {
  for (uint32_t w = 0; w < kMostPositions / 64; ++w) {
    for (uint64_t rest = set.words[w]; rest != 0; rest &= rest - 1) {
      visit(w * 64 + static_cast<uint32_t>(std::countr_zero(rest)));
    }
  }
}

struct CharacterRange {
  uint32_t first;
  uint32_t last;
};

struct Position {
  PositionSet follow;    // what may be read next
  uint32_t first_range;  // ascending, apart
  uint32_t n_ranges;
};

struct Pattern {
  PositionSet ends;       // after which a text may end
  PositionSet universal;  // read characters for ever, any but control characters and line ends
  uint32_t first_position;
  uint32_t n_positions;
  uint32_t ascii;  // kAsciiCharacters sets: which positions a character fits
};

// What patterns are made of; pools that all of them share.
struct PatternPools {
  Position* positions;
  CharacterRange* ranges;
  PositionSet* ascii;
  uint32_t n_positions;
  uint32_t n_ranges;
  uint32_t n_ascii;
};

// Room in the pools for an expression, before it is read.
struct PatternRoom {
  uint32_t positions;
  uint32_t ranges;
};
[[nodiscard]] PatternRoom room_for_pattern(std::string_view raw);

// Reads an expression, as the string stands in the schema, into the pools, where there is room for
// it. Characters that JSON cannot write in at most two bytes are not matched, nor is excluded, a
// character of ASCII; 0: none. matches receives whether there is a text at all that fits. Errors:
// kUnsupported, kTextTooLong, and then reason and the byte of raw that it is about.
struct PatternProblem {
  const char* reason;
  size_t at;
};
[[nodiscard]] Status read_pattern(std::string_view raw, char excluded, PatternPools* pools,
                                  Pattern* pattern, bool* matches, PatternProblem* problem);

[[nodiscard]] PositionSet pattern_start();
// What can be read after what was; those of it that a character fits: a step is both.
[[nodiscard]] PositionSet pattern_followers(const PatternPools& pools, const Pattern& pattern,
                                            const PositionSet& from);
[[nodiscard]] PositionSet pattern_fitting(const PatternPools& pools, const Pattern& pattern,
                                          const PositionSet& next, uint32_t character);
// Whether one of the characters can be read.
[[nodiscard]] bool pattern_takes(const PatternPools& pools, const Pattern& pattern,
                                 const PositionSet& next, CharacterRange characters);
// Positions after which a text can end, at once or later; those that one of a set can follow.
[[nodiscard]] PositionSet pattern_alive(const PatternPools& pools, const Pattern& pattern);
[[nodiscard]] PositionSet pattern_before(const PatternPools& pools, const Pattern& pattern,
                                         const PositionSet& set);

}  // namespace cria::json
