// How a byte-level tokenizer section cuts text into words: tables of deterministic automata, one a
// stage, that the runtime walks as they lie (docs/model_format.md, part 6).
//
// The array pre_tokenizer of the section: PreTokenizerHeader, then
//   uint32_t   runs[n_runs]        first code point << kRunClassBits | class, ascending, the first
//                                  from U+0080: the class of the characters up to the next run
//   StageEntry stages[n_stages]
//   uint16_t   transitions[stage][n_states][n_classes + 1]
// A row of transitions is a state; a column a class of characters, the last one the end of the
// text. An entry is next state << 1 | whether a match may end before this character. State 0 is
// dead and has no row of its own in use: all its entries are zero. A walk starts in state 1.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria::format {

inline constexpr size_t kAsciiCodes = 128;
inline constexpr uint32_t kRunClassBits = 8;
inline constexpr uint32_t kRunClassMask = 0xff;
inline constexpr uint32_t kMaxCharClasses = 255;
inline constexpr uint32_t kMaxClassRuns = 1 << 14;
inline constexpr uint32_t kMaxSplitStages = 8;
inline constexpr uint32_t kMaxSplitStates = 1 << 10;  // of a stage
inline constexpr uint32_t kMaxTransitions = 1 << 20;  // of all stages

// Cutting a text reads no byte more often, on average; tables that would are hostile.
inline constexpr uint32_t kMaxReadsPerByte = 128;

inline constexpr uint32_t kDeadState = 0;
inline constexpr uint32_t kStartState = 1;

// What becomes of the matches of a stage and of the text between them.
enum class SplitBehavior : uint32_t {
  kIsolated = 0,            // each is a piece
  kMergedWithPrevious = 1,  // a match that does not follow a match joins the text before it
  kMergedWithNext = 2,      // a match that no match follows joins the text after it
  kContiguous = 3,          // neighbouring matches are one piece
};

struct PreTokenizerHeader {
  uint32_t n_classes;
  uint32_t n_runs;
  uint32_t n_stages;
  uint32_t n_transitions;  // of all stages
  uint8_t ascii_classes[kAsciiCodes];
};
static_assert(sizeof(PreTokenizerHeader) == 144);

struct StageEntry {
  uint32_t n_states;  // with the dead one
  uint16_t behavior;  // SplitBehavior
  uint16_t inverted;  // 1: matches and the text between them change places
};
static_assert(sizeof(StageEntry) == 8);

}  // namespace cria::format
