// The rules of a pre-tokenizer's tables (quant/text/pre_tokenizer_format.h).
#pragma once

#include <cstdint>
#include <span>

#include "quant/text/pre_tokenizer_format.h"

namespace cria {

struct SplitStage {
  const uint16_t* transitions;  // [n_states][n_columns]
  format::SplitBehavior behavior;
  bool inverted;
};

// Pointers into the tables; trivially copyable.
struct PreTokenizerTables {
  const uint8_t* ascii_classes;
  const uint32_t* runs;
  uint32_t n_runs;
  uint32_t n_columns;
  uint32_t n_stages;
  SplitStage stages[format::kMaxSplitStages];
};

// Checks every number once, so that no walk leaves the tables or stands still, and points tables
// into bytes, which are 4-byte aligned and outlive it. Returns as the functions of
// quant/text/tokenizer_check.h. Cost: reads the bytes once.
[[nodiscard]] const char* check_pre_tokenizer(std::span<const uint8_t> bytes,
                                              PreTokenizerTables* tables);

}  // namespace cria
