// The one list of the tensors a model has, in the order of the file. Shapes, names, the parts of a
// layer, what is stored at all: everything else about roles is derived from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "quant/format.h"

namespace cria {

// Where tensors of a role stand: in the file before the layers, in each of them, or behind.
enum class TensorPlace : uint8_t { kBeforeLayers, kInLayers, kBehindLayers };

// What the sides of a tensor are.
enum class Extent : uint8_t {
  kOne,
  kRotaryPairs,
  kHead,
  kModel,
  kQueries,
  kKeysValues,
  kFfn,
  kVocab,
};

inline constexpr uint8_t kNoMatrix = 0xff;

struct TensorRoleRow {
  format::TensorRole role;
  const char* name;  // for people
  TensorPlace place;
  Extent rows;  // kOne: an f32 vector in plain order
  Extent cols;
  uint8_t matrix;     // format::MatrixRole, by which ModelConfig::n_matrices counts formats
  uint32_t needs;     // a flag of ModelConfig::flags without which there is none; 0: always
  uint32_t excludes;  // a flag with which there is none
};

namespace roles {

using format::MatrixRole;
using format::TensorRole;

constexpr TensorRoleRow vector(TensorRole role, const char* name, TensorPlace place, Extent n,
                               uint32_t needs = 0) {
  return {role, name, place, Extent::kOne, n, kNoMatrix, needs, 0};
}
constexpr TensorRoleRow matrix(TensorRole role, const char* name, TensorPlace place, Extent rows,
                               Extent cols, MatrixRole which, uint32_t excludes = 0) {
  return {role, name, place, rows, cols, static_cast<uint8_t>(which), 0, excludes};
}

}  // namespace roles

inline constexpr TensorRoleRow kTensorRoles[] = {
    roles::vector(format::TensorRole::kRopeInverseFrequencies, "rope.inverse_frequencies",
                  TensorPlace::kBeforeLayers, Extent::kRotaryPairs),
    roles::vector(format::TensorRole::kRopeLongInverseFrequencies, "rope.long_inverse_frequencies",
                  TensorPlace::kBeforeLayers, Extent::kRotaryPairs, format::kLongRope),
    roles::matrix(format::TensorRole::kEmbedding, "embedding", TensorPlace::kBeforeLayers,
                  Extent::kVocab, Extent::kModel, format::MatrixRole::kEmbedding),

    roles::vector(format::TensorRole::kAttentionNorm, "attention_norm", TensorPlace::kInLayers,
                  Extent::kModel),
    roles::matrix(format::TensorRole::kQ, "q", TensorPlace::kInLayers, Extent::kQueries,
                  Extent::kModel, format::MatrixRole::kQ),
    roles::vector(format::TensorRole::kQBias, "q.bias", TensorPlace::kInLayers, Extent::kQueries,
                  format::kQkvBias),
    roles::matrix(format::TensorRole::kK, "k", TensorPlace::kInLayers, Extent::kKeysValues,
                  Extent::kModel, format::MatrixRole::kK),
    roles::vector(format::TensorRole::kKBias, "k.bias", TensorPlace::kInLayers, Extent::kKeysValues,
                  format::kQkvBias),
    roles::matrix(format::TensorRole::kV, "v", TensorPlace::kInLayers, Extent::kKeysValues,
                  Extent::kModel, format::MatrixRole::kV),
    roles::vector(format::TensorRole::kVBias, "v.bias", TensorPlace::kInLayers, Extent::kKeysValues,
                  format::kQkvBias),
    roles::vector(format::TensorRole::kQNorm, "q_norm", TensorPlace::kInLayers, Extent::kHead,
                  format::kQkNorm),
    roles::vector(format::TensorRole::kKNorm, "k_norm", TensorPlace::kInLayers, Extent::kHead,
                  format::kQkNorm),
    roles::matrix(format::TensorRole::kO, "o", TensorPlace::kInLayers, Extent::kModel,
                  Extent::kQueries, format::MatrixRole::kO),
    roles::vector(format::TensorRole::kOBias, "o.bias", TensorPlace::kInLayers, Extent::kModel,
                  format::kOutputBias),
    roles::vector(format::TensorRole::kFfnNorm, "ffn_norm", TensorPlace::kInLayers, Extent::kModel),
    roles::matrix(format::TensorRole::kGate, "gate", TensorPlace::kInLayers, Extent::kFfn,
                  Extent::kModel, format::MatrixRole::kGate),
    roles::vector(format::TensorRole::kGateBias, "gate.bias", TensorPlace::kInLayers, Extent::kFfn,
                  format::kMlpBias),
    roles::matrix(format::TensorRole::kUp, "up", TensorPlace::kInLayers, Extent::kFfn,
                  Extent::kModel, format::MatrixRole::kUp),
    roles::vector(format::TensorRole::kUpBias, "up.bias", TensorPlace::kInLayers, Extent::kFfn,
                  format::kMlpBias),
    roles::matrix(format::TensorRole::kDown, "down", TensorPlace::kInLayers, Extent::kModel,
                  Extent::kFfn, format::MatrixRole::kDown),
    roles::vector(format::TensorRole::kDownBias, "down.bias", TensorPlace::kInLayers,
                  Extent::kModel, format::kMlpBias),

    roles::vector(format::TensorRole::kFinalNorm, "final_norm", TensorPlace::kBehindLayers,
                  Extent::kModel),
    roles::matrix(format::TensorRole::kLmHead, "lm_head", TensorPlace::kBehindLayers,
                  Extent::kVocab, Extent::kModel, format::MatrixRole::kLmHead,
                  format::kTiedEmbedding),
};

[[nodiscard]] constexpr const TensorRoleRow& role_row(format::TensorRole role) {
  const TensorRoleRow* found = nullptr;
  for (const TensorRoleRow& row : kTensorRoles) {
    if (row.role == role) found = &row;
  }
  return *found;
}

[[nodiscard]] constexpr bool is_there(const TensorRoleRow& row, const format::ModelConfig& c) {
  return (c.flags & row.needs) == row.needs && (c.flags & row.excludes) == 0;
}

// Elements of a head that RoPE turns.
[[nodiscard]] constexpr uint32_t rotary_dim(const format::ModelConfig& c) {
  return c.rotary_dim != 0 ? c.rotary_dim : c.head_dim;
}

[[nodiscard]] constexpr uint32_t extent(Extent which, const format::ModelConfig& c) {
  switch (which) {
    case Extent::kOne:
      return 1;
    case Extent::kRotaryPairs:
      return rotary_dim(c) / 2;
    case Extent::kHead:
      return c.head_dim;
    case Extent::kModel:
      return c.d_model;
    case Extent::kQueries:
      return c.n_heads * c.head_dim;
    case Extent::kKeysValues:
      return c.n_kv_heads * c.head_dim;
    case Extent::kFfn:
      return c.d_ff;
    case Extent::kVocab:
      return c.vocab_size;
  }
  return 0;
}

// Computed, not learned: rates at which RoPE turns.
[[nodiscard]] constexpr bool is_rope(format::TensorRole role) {
  return role == format::TensorRole::kRopeInverseFrequencies ||
         role == format::TensorRole::kRopeLongInverseFrequencies;
}

// Every role and every matrix has exactly one row.
[[nodiscard]] consteval bool each_once() {
  for (uint32_t role = 0; role < std::size(kTensorRoles); ++role) {
    uint32_t n = 0;
    for (const TensorRoleRow& row : kTensorRoles) n += static_cast<uint32_t>(row.role) == role;
    if (n != 1) return false;
  }
  for (uint32_t matrix = 0; matrix < format::kMatrixRoles; ++matrix) {
    uint32_t n = 0;
    for (const TensorRoleRow& row : kTensorRoles) n += row.matrix == matrix;
    if (n != 1) return false;
  }
  return true;
}
static_assert(each_once());

}  // namespace cria
