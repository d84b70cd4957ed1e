// What a layer keeps of a conversation, and what a block computes with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "quant/format/carver.h"

namespace cria {

enum class KvFormat : uint32_t { kInt8 = 0, kF32 = 1, kK8V4 = 2 };

// What a saved conversation may hold.
enum class StateValues : uint8_t { kCodes, kNibbles, kScales, kSignedScales, kFloats };

// Rows of every position; or blocks of all positions so far, which cannot be cut back.
enum class Keeps : uint8_t { kRows, kBlock };

// Arrays of a layer's state, each with a row for every position and head, or for every block.
struct StatePart {
  StateValues values;
  uint32_t row_bytes;
};
inline constexpr size_t kMaxStateParts = 4;
struct StateParts {
  uint32_t n_heads;  // of blocks 1
  uint32_t n;        // parts; 0: the layers keep nothing
  std::array<StatePart, kMaxStateParts> parts;
  Keeps keeps;
};

// What a workspace is for.
struct StepShape {
  uint32_t n_rows;  // handled at once
  uint32_t n_threads;
};

}  // namespace cria
