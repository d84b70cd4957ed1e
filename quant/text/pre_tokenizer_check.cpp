#include "quant/text/pre_tokenizer_check.h"

#include <cstring>

#include "quant/format/reason.h"

namespace cria {
namespace {

using format::PreTokenizerHeader;
using format::StageEntry;

constexpr uint32_t kLastCode = 0x10ffff;

const char* check_header(const PreTokenizerHeader& header, size_t n_bytes) {
  if (header.n_classes == 0 || header.n_classes > format::kMaxCharClasses || header.n_runs == 0 ||
      header.n_runs > format::kMaxClassRuns || header.n_stages == 0 ||
      header.n_stages > format::kMaxSplitStages || header.n_transitions > format::kMaxTransitions) {
    return "its pre-tokenizer has a count that is out of range"_reason;
  }
  const size_t wanted = sizeof(header) + header.n_runs * sizeof(uint32_t) +
                        header.n_stages * sizeof(StageEntry) +
                        header.n_transitions * sizeof(uint16_t);
  if (n_bytes != wanted) return "its pre-tokenizer has the wrong size"_reason;
  for (const uint8_t char_class : header.ascii_classes) {
    if (char_class >= header.n_classes) return "a character has an unknown class"_reason;
  }
  return nullptr;
}

const char* check_runs(const PreTokenizerHeader& header, const uint32_t* runs) {
  if (runs[0] >> format::kRunClassBits != format::kAsciiCodes) {
    return "its runs of characters do not start after ASCII"_reason;
  }
  for (uint32_t i = 0; i < header.n_runs; ++i) {
    const uint32_t first = runs[i] >> format::kRunClassBits;
    if ((runs[i] & format::kRunClassMask) >= header.n_classes) {
      return "a run of characters has an unknown class"_reason;
    }
    if (first > kLastCode || (i > 0 && runs[i - 1] >> format::kRunClassBits >= first)) {
      return "its runs of characters are out of order"_reason;
    }
  }
  return nullptr;
}

const char* check_stage(const uint16_t* transitions, uint32_t n_states, uint32_t n_columns) {
  for (uint32_t state = 0; state < n_states; ++state) {
    for (uint32_t column = 0; column < n_columns; ++column) {
      const uint32_t entry = transitions[size_t{state} * n_columns + column];
      if (entry >> 1 >= n_states) return "a state of its pre-tokenizer leads nowhere"_reason;
      if (state == format::kDeadState && entry != 0) return "its dead state has a way out"_reason;
      if (column + 1 == n_columns && entry >> 1 != format::kDeadState) {
        return "its pre-tokenizer goes on after the text"_reason;
      }
      if (state == format::kStartState && (entry & 1) != 0) {
        return "its pre-tokenizer finds words without text"_reason;
      }
    }
  }
  return nullptr;
}

}  // namespace

const char* check_pre_tokenizer(std::span<const uint8_t> bytes, PreTokenizerTables* tables) {
  if (bytes.size() < sizeof(PreTokenizerHeader)) return "its pre-tokenizer is too short"_reason;
  PreTokenizerHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (const char* wrong = check_header(header, bytes.size())) return wrong;
  const uint8_t* place = bytes.data() + sizeof(header);
  PreTokenizerTables t = {};
  t.ascii_classes = bytes.data() + offsetof(PreTokenizerHeader, ascii_classes);
  t.runs = reinterpret_cast<const uint32_t*>(place);
  t.n_runs = header.n_runs;
  t.n_columns = header.n_classes + 1;
  t.n_stages = header.n_stages;
  if (const char* wrong = check_runs(header, t.runs)) return wrong;
  place += header.n_runs * sizeof(uint32_t);
  const auto* const stages = reinterpret_cast<const StageEntry*>(place);
  place += header.n_stages * sizeof(StageEntry);
  const auto* transitions = reinterpret_cast<const uint16_t*>(place);
  uint32_t n_left = header.n_transitions;
  for (uint32_t i = 0; i < header.n_stages; ++i) {
    const StageEntry& stage = stages[i];
    if (stage.n_states <= format::kStartState || stage.n_states > format::kMaxSplitStates ||
        stage.behavior > static_cast<uint16_t>(format::SplitBehavior::kContiguous) ||
        stage.inverted > 1) {
      return "a stage of its pre-tokenizer is unknown"_reason;
    }
    const uint32_t n_transitions = stage.n_states * t.n_columns;
    if (n_transitions > n_left) return "its pre-tokenizer's states do not fill it"_reason;
    n_left -= n_transitions;
    if (const char* wrong = check_stage(transitions, stage.n_states, t.n_columns)) return wrong;
    t.stages[i] = {transitions, static_cast<format::SplitBehavior>(stage.behavior),
                   stage.inverted != 0};
    transitions += n_transitions;
  }
  if (n_left != 0) return "its pre-tokenizer's states do not fill it"_reason;
  *tables = t;
  return nullptr;
}

}  // namespace cria
