#include "runtime/text/pre_tokenizer.h"

#include <algorithm>

namespace cria {
namespace {

using format::kDeadState;
using format::kStartState;
using format::PreTokenizer;
using format::SplitBehavior;

// What a walk may read for nothing before that is worth being remembered.
constexpr size_t kShortTail = 16;

// Where a run of words' letters starts: a space or its mark.
bool is_space_mark(const PrefixedText& text, size_t offset) {
  return is_space_or_mark(text.char_at(offset).code);
}

size_t skip_marks(const PrefixedText& text, size_t offset) {
  while (offset < text.n_bytes && is_space_mark(text, offset)) {
    offset += text.char_at(offset).n_bytes;
  }
  return offset;
}

size_t skip_others(const PrefixedText& text, size_t offset) {
  while (offset < text.n_bytes && !is_space_mark(text, offset)) {
    offset += text.char_at(offset).n_bytes;
  }
  return offset;
}

}  // namespace

StageCutter::StageCutter(const PreTokenizerTables& tables, const PrefixedText& text)
    : tables_(tables),
      text_(text),
      most_read_((uint64_t{text.n_bytes} + 1) * format::kMaxReadsPerByte) {
  for (uint32_t stage = 0; stage < tables.n_stages; ++stage) progress_[stage] = {};
}

uint32_t StageCutter::class_of(uint32_t code) {
  const auto first = [this](uint32_t run) { return tables_.runs[run] >> format::kRunClassBits; };
  // Neighbours in a text often are neighbours in the table.
  if (first(run_) > code || (run_ + 1 < tables_.n_runs && first(run_ + 1) <= code)) {
    uint32_t low = 0;
    uint32_t high = tables_.n_runs;
    while (high - low > 1) {
      const uint32_t middle = low + (high - low) / 2;
      (first(middle) <= code ? low : high) = middle;
    }
    run_ = low;
  }
  return tables_.runs[run_] & format::kRunClassMask;
}

inline StageCutter::Place StageCutter::at(size_t offset) {
  const auto byte = static_cast<uint8_t>(text_.byte_at(offset));
  if (byte < format::kAsciiCodes) return {tables_.ascii_classes[byte], 1};
  const Utf8Char c = text_.char_at(offset);
  return {class_of(c.code), c.n_bytes};
}

// The end of the match that starts at begin; begin itself when there is none.
size_t StageCutter::walk(uint32_t stage, size_t begin, size_t end) {
  if (progress_[stage].failure.last > begin) return careful_walk(stage, begin, end);
  const uint16_t* const transitions = tables_.stages[stage].transitions;
  size_t match_end = begin;
  size_t place = begin;
  for (uint32_t state = kStartState; state != kDeadState;) {
    const bool at_end = place == end;
    const Place c = at_end ? Place{tables_.n_columns - 1, 1} : at(place);
    const uint32_t entry = transitions[state * tables_.n_columns + c.char_class];
    if ((entry & 1) != 0) match_end = place;
    state = entry >> 1;
    place += c.n_bytes;
  }
  n_read_ += place - begin;
  return place - match_end > kShortTail ? careful_walk(stage, begin, end) : match_end;
}

// The same, with an eye on where it has been known to find nothing and finds nothing now.
size_t StageCutter::careful_walk(uint32_t stage, size_t begin, size_t end) {
  Failure& known = progress_[stage].failure;
  const uint16_t* const transitions = tables_.stages[stage].transitions;
  Failure stay = {kStartState, begin, begin};  // in the state in which the walk is
  Failure longest = stay;                      // after the match
  size_t match_end = begin;
  size_t place = begin;
  for (uint32_t state = kStartState; state != kDeadState;) {
    if (state == known.state && place >= known.first && place <= known.last) break;
    if (stay.state != state) stay = {state, place, place};
    stay.last = place;
    if (stay.last - stay.first > longest.last - longest.first) longest = stay;
    const bool at_end = place == end;
    const Place c = at_end ? Place{tables_.n_columns - 1, 1} : at(place);
    const uint32_t entry = transitions[state * tables_.n_columns + c.char_class];
    if ((entry & 1) != 0) {
      match_end = place;
      stay = {kDeadState, place, place};
      longest = stay;
    }
    state = entry >> 1;
    place += c.n_bytes;
  }
  n_read_ += place - begin;
  if (place - match_end > kShortTail) known = longest;
  return match_end;
}

// Puts the first match at or after begin into the stage's progress.
void StageCutter::find_match(uint32_t stage, size_t begin, size_t end) {
  Progress& progress = progress_[stage];
  const uint16_t* const start =
      tables_.stages[stage].transitions + size_t{kStartState} * tables_.n_columns;
  size_t place = begin;
  while (place < end && n_read_ <= most_read_) {
    const Place c = at(place);
    if (start[c.char_class] >> 1 != kDeadState) {
      const size_t match_end = walk(stage, place, end);
      if (match_end > place) {
        progress.match_begin = place;
        progress.match_end = match_end;
        return;
      }
    }
    place += c.n_bytes;
    n_read_ += c.n_bytes;
  }
  progress.match_begin = end;
  progress.match_end = end;
}

StageCutter::Item StageCutter::item(uint32_t stage, size_t begin, size_t end) {
  const Progress& progress = progress_[stage];
  if (progress.match_end <= begin) find_match(stage, begin, end);
  const bool is_match = progress.match_begin == begin;
  return {is_match ? progress.match_end : progress.match_begin,
          is_match != tables_.stages[stage].inverted};
}

// Where the stage's piece ends that starts at begin, of text that ends at end.
size_t StageCutter::piece_end(uint32_t stage, size_t begin, size_t end) {
  const Item first = item(stage, begin, end);
  if (first.end >= end) return first.end;
  switch (tables_.stages[stage].behavior) {
    case SplitBehavior::kIsolated:
      return first.end;
    case SplitBehavior::kMergedWithPrevious: {
      if (first.is_match) return first.end;
      const Item next = item(stage, first.end, end);
      return next.is_match ? next.end : first.end;
    }
    case SplitBehavior::kMergedWithNext: {
      if (!first.is_match) return first.end;
      const Item next = item(stage, first.end, end);
      return next.is_match ? first.end : next.end;
    }
    case SplitBehavior::kContiguous: {
      Item last = first;
      while (last.is_match && last.end < end) {
        const Item next = item(stage, last.end, end);
        if (!next.is_match) break;
        last = next;
      }
      return last.end;
    }
  }
  return first.end;
}

size_t StageCutter::word_end(size_t begin) {
  uint32_t stage = 0;
  while (stage < tables_.n_stages && progress_[stage].piece_end > begin) ++stage;
  for (bool is_new = false; stage < tables_.n_stages; ++stage, is_new = true) {
    if (is_new) progress_[stage] = {};
    const size_t end = stage == 0 ? text_.n_bytes : progress_[stage - 1].piece_end;
    progress_[stage].piece_end = piece_end(stage, begin, end);
  }
  return n_read_ > most_read_ ? 0 : progress_[tables_.n_stages - 1].piece_end;
}

size_t word_end(PreTokenizer kind, const PrefixedText& text, size_t offset) {
  switch (kind) {
    case PreTokenizer::kSpaceRuns:
      return skip_others(text, skip_marks(text, offset));
    case PreTokenizer::kMetaspace:
      return skip_others(text, offset + text.char_at(offset).n_bytes);
    case PreTokenizer::kWhole:
    case PreTokenizer::kStages:
      break;
  }
  return text.n_bytes;
}

}  // namespace cria
