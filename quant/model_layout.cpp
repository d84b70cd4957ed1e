#include "quant/model_layout.h"

#include <cmath>
#include <cstring>
#include <iterator>

#include "quant/align.h"
#include "quant/all_zero.h"
#include "quant/architectures.h"
#include "quant/tensor_roles.h"

namespace cria {
namespace {

using format::ModelConfig;
using format::NumberFormat;
using format::TensorRole;

bool in_range(uint32_t value, uint32_t low, uint32_t high) { return value >= low && value <= high; }

// Multipliers must be usable numbers: a NaN or an infinity would reach every logit.
bool is_finite(float value) { return std::isfinite(value); }

uint64_t no_rope_layers(const ModelConfig& c) {
  constexpr unsigned kWordBits = 32;
  return uint64_t{c.no_rope_layers[1]} << kWordBits | c.no_rope_layers[0];
}

const char* check_sizes(const ModelConfig& c) {
  if (!in_range(c.n_layers, 1, format::kMaxLayers)) return "n_layers";
  if (!in_range(c.d_model, 1, format::kMaxModelWidth)) return "d_model";
  if (!in_range(c.n_heads, 1, format::kMaxHeads)) return "n_heads";
  if (!in_range(c.n_kv_heads, 1, c.n_heads) || c.n_heads % c.n_kv_heads != 0) return "n_kv_heads";
  if (!in_range(c.head_dim, 2, format::kMaxHeadDim) || c.head_dim % 2 != 0) return "head_dim";
  if (c.n_heads * c.head_dim > format::kMaxModelWidth) return "n_heads * head_dim";
  if (!in_range(c.d_ff, 1, format::kMaxFfnWidth)) return "d_ff";
  if (!in_range(c.vocab_size, 1, format::kMaxVocab)) return "vocab_size";
  if (!in_range(c.max_context, 1, format::kMaxContext)) return "max_context";
  if (!in_range(c.planned_context, 1, c.max_context)) return "planned_context";
  if (c.sliding_window > format::kMaxContext) return "sliding_window";
  return nullptr;
}

const char* check_rope(const ModelConfig& c) {
  if (c.rotary_dim >= c.head_dim || c.rotary_dim % 2 != 0) return "rotary_dim";
  const bool has_two = (c.flags & format::kLongRope) != 0;
  if (has_two ? !in_range(c.original_context, 1, c.max_context - 1) : c.original_context != 0) {
    return "original_context";
  }
  if (c.no_rope_period > format::kMaxNoRopePeriod) return "no_rope_period";
  const uint64_t layers = no_rope_layers(c);
  // No bits beyond the period, and some within it.
  const uint64_t beyond =
      c.no_rope_period == format::kMaxNoRopePeriod ? 0 : layers >> c.no_rope_period;
  const bool holds = beyond == 0 && (layers != 0) == (c.no_rope_period != 0);
  return holds ? nullptr : "no_rope_layers";
}

const char* check_numbers(const ModelConfig& c) {
  if (!(is_finite(c.rms_epsilon) && c.rms_epsilon >= 0 && c.rms_epsilon < 1)) return "rms_epsilon";
  if (!is_finite(c.embedding_multiplier)) return "embedding_multiplier";
  if (!is_finite(c.residual_multiplier)) return "residual_multiplier";
  if (!is_finite(c.attention_multiplier)) return "attention_multiplier";
  if (!(is_finite(c.logits_divisor) && c.logits_divisor > 0)) return "logits_divisor";
  if (!is_finite(c.rope_factor)) return "rope_factor";
  return nullptr;
}

const char* check_tokens(const ModelConfig& c) {
  if (c.bos_token != format::kNone && c.bos_token >= c.vocab_size) return "bos_token";
  if (c.n_end_tokens > format::kMaxEndTokens) return "n_end_tokens";
  for (uint32_t i = 0; i < format::kMaxEndTokens; ++i) {
    if (i < c.n_end_tokens ? c.end_tokens[i] >= c.vocab_size : c.end_tokens[i] != 0) {
      return "end_tokens";
    }
  }
  return nullptr;
}

constexpr MatrixFormat kVectorFormat = {NumberFormat::kF32, 0};

TensorSpec spec_of(const ModelConfig& c, const TensorRoleRow& row, uint32_t layer,
                   MatrixFormat matrix_format) {
  const bool is_matrix = row.matrix != kNoMatrix;
  const MatrixFormat f = is_matrix ? matrix_format : kVectorFormat;
  return {row.role,
          layer,
          is_matrix,
          {extent(row.rows, c), extent(row.cols, c), f.number_format, f.group_size},
          has_nibbles(f.number_format) && (c.flags & format::kSignedScales) != 0};
}

// How many tensors of a role there are.
uint32_t role_count(const TensorRoleRow& row, const ModelConfig& c) {
  if (!is_there(row, c)) return 0;
  return row.place == TensorPlace::kInLayers ? c.n_layers : 1;
}

// Counts are of formats that there are, and those of a role sum up to its tensors.
bool counts_hold(const ModelConfig& c) {
  for (const TensorRoleRow& row : kTensorRoles) {
    if (row.matrix == kNoMatrix) continue;
    uint32_t n = 0;
    for (size_t place = 0; place < format::kMatrixFormatPlaces; ++place) {
      const uint16_t count = c.n_matrices[row.matrix][place];
      if (count != 0 && place >= std::size(kMatrixFormats)) return false;
      n += count;
    }
    if (n != role_count(row, c)) return false;
  }
  return true;
}

bool has_nibble_matrix(const ModelConfig& c) {
  for (const auto& counts : c.n_matrices) {
    for (size_t place = 0; place < std::size(kMatrixFormats); ++place) {
      if (counts[place] != 0 && has_nibbles(kMatrixFormats[place].number_format)) return true;
    }
  }
  return false;
}

uint32_t tensors_at(TensorPlace place, const ModelConfig& c) {
  uint32_t n = 0;
  for (const TensorRoleRow& row : kTensorRoles) n += row.place == place && is_there(row, c) ? 1 : 0;
  return n;
}

// The row of the tensor at place n among those that are there.
const TensorRoleRow& row_at(TensorPlace place, const ModelConfig& c, uint32_t n) {
  const TensorRoleRow* found = nullptr;
  for (const TensorRoleRow& row : kTensorRoles) {
    if (row.place != place || !is_there(row, c)) continue;
    found = &row;
    if (n-- == 0) break;
  }
  return *found;
}

// Sum of value(spec) over all tensors.
template <typename Value>
uint64_t sum_of(const ModelConfig& c, const Value& value) {
  uint64_t sum = 0;
  TensorKinds kinds(c);
  for (TensorKind kind = {}; kinds.next(&kind);) sum += kind.n * value(kind.spec);
  return sum;
}

}  // namespace

const char* check_config(const ModelConfig& c) {
  if (!is_architecture(c.architecture)) return "architecture";
  if ((c.flags & ~format::kKnownFlags) != 0) return "flags";
  if (c.compression > static_cast<uint32_t>(format::Compression::kZstd)) return "compression";
  if (const char* field = check_sizes(c)) return field;
  if (const char* field = check_rope(c)) return field;
  if (const char* field = check_numbers(c)) return field;
  if (const char* field = check_tokens(c)) return field;
  if (!counts_hold(c)) return "n_matrices";
  if ((c.flags & format::kSignedScales) != 0 && !has_nibble_matrix(c)) return "flags";
  return all_zero(c.reserved) ? nullptr : "reserved";
}

bool has_rope(const ModelConfig& c, size_t layer) {
  return c.no_rope_period == 0 || (no_rope_layers(c) >> layer % c.no_rope_period & 1) == 0;
}

uint32_t tensor_count(const ModelConfig& c) {
  return tensors_at(TensorPlace::kBeforeLayers, c) +
         c.n_layers * tensors_at(TensorPlace::kInLayers, c) +
         tensors_at(TensorPlace::kBehindLayers, c);
}

TensorSpec tensor_spec(const ModelConfig& c, uint32_t index, MatrixFormat f) {
  const uint32_t before = tensors_at(TensorPlace::kBeforeLayers, c);
  if (index < before) {
    return spec_of(c, row_at(TensorPlace::kBeforeLayers, c, index), format::kNone, f);
  }
  const uint32_t per_layer = tensors_at(TensorPlace::kInLayers, c);
  const uint32_t layer = (index - before) / per_layer;
  if (layer < c.n_layers) {
    return spec_of(c, row_at(TensorPlace::kInLayers, c, (index - before) % per_layer), layer, f);
  }
  const uint32_t behind = index - before - c.n_layers * per_layer;
  return spec_of(c, row_at(TensorPlace::kBehindLayers, c, behind), format::kNone, f);
}

uint64_t tensor_code_bytes(const TensorSpec& spec) {
  return spec.is_matrix ? code_plane_bytes(spec.shape) : uint64_t{spec.shape.cols} * 4;
}

uint64_t tensor_scale_bytes(const TensorSpec& spec) {
  return spec.is_matrix ? scale_plane_bytes(spec.shape) : 0;
}

uint64_t tensor_bytes(const TensorSpec& spec) {
  return tensor_code_bytes(spec) + tensor_scale_bytes(spec);
}

uint32_t chunks_of_bytes(uint64_t plane_bytes) {
  return static_cast<uint32_t>((plane_bytes + format::kChunkRawBytes - 1) / format::kChunkRawBytes);
}

uint32_t tensor_chunk_count(const TensorSpec& spec) {
  return chunks_of_bytes(tensor_code_bytes(spec)) + chunks_of_bytes(tensor_scale_bytes(spec));
}

format::TensorEntry tensor_entry(const TensorSpec& spec, uint32_t first_chunk) {
  format::TensorEntry e = {};
  e.role = static_cast<uint16_t>(spec.role);
  e.group_size = spec.shape.group_size;
  e.layer = spec.layer;
  e.number_format = static_cast<uint8_t>(spec.shape.number_format);
  e.rows = spec.shape.rows;
  e.cols = spec.shape.cols;
  e.first_chunk = first_chunk;
  e.n_chunks = tensor_chunk_count(spec);
  e.raw_bytes = tensor_bytes(spec);
  return e;
}

bool read_entry(const ModelConfig& c, uint32_t index, const format::TensorEntry& entry,
                TensorSpec* spec) {
  const MatrixFormat f = {static_cast<NumberFormat>(entry.number_format), entry.group_size};
  const size_t place = place_of(f);
  if (place == std::size(kMatrixFormats)) return false;
  *spec = tensor_spec(c, index, f);
  if (spec->is_matrix && c.n_matrices[role_row(spec->role).matrix][place] == 0) return false;
  const format::TensorEntry implied = tensor_entry(*spec, entry.first_chunk);
  return std::memcmp(&implied, &entry, sizeof entry) == 0;
}

void count_tensor(const TensorSpec& spec, format::MatrixCounts* counts) {
  if (!spec.is_matrix) return;
  ++(*counts)[role_row(spec.role).matrix][place_of(format_of(spec.shape))];
}

bool TensorKinds::next(TensorKind* kind) {
  for (; role_ < std::size(kTensorRoles); ++role_, place_ = 0) {
    const TensorRoleRow& row = kTensorRoles[role_];
    const size_t n_places = row.matrix == kNoMatrix ? 1 : std::size(kMatrixFormats);
    while (place_ < n_places) {
      const MatrixFormat f = kMatrixFormats[place_];
      const uint32_t n = row.matrix == kNoMatrix ? role_count(row, *config_)
                                                 : config_->n_matrices[row.matrix][place_];
      ++place_;
      if (n == 0) continue;
      *kind = {spec_of(*config_, row, format::kNone, f), n};
      return true;
    }
  }
  return false;
}

MatrixShape role_shape(const ModelConfig& c, TensorRole role) {
  const bool is_tied = (c.flags & format::kTiedEmbedding) != 0;
  const TensorRole stored = is_tied && role == TensorRole::kLmHead ? TensorRole::kEmbedding : role;
  MatrixShape shape = {};
  TensorKinds kinds(c);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    if (kind.spec.role == stored) shape = kind.spec.shape;
  }
  return shape;
}

uint64_t chunk_count(const ModelConfig& c) { return sum_of(c, tensor_chunk_count); }

bool is_layer_matrix(const TensorSpec& spec) {
  return spec.is_matrix && role_row(spec.role).place == TensorPlace::kInLayers;
}

bool is_kept(const TensorSpec& spec, KeptTensors kept) {
  return kept == KeptTensors::kAll || !spec.is_matrix || spec.role == TensorRole::kEmbedding;
}

uint64_t kept_tensor_bytes(const ModelConfig& c, KeptTensors kept) {
  return sum_of(c, [&](const TensorSpec& spec) {
    return is_kept(spec, kept) ? aligned(tensor_bytes(spec)) : 0;
  });
}

uint64_t uncompressed_data_bytes(const ModelConfig& c) {
  // lm_head or, tied, the final norm, which is f32 whatever the format.
  const MatrixShape lm_head = role_shape(c, TensorRole::kLmHead);
  const TensorSpec last = tensor_spec(c, tensor_count(c) - 1, format_of(lm_head));
  return kept_tensor_bytes(c, KeptTensors::kAll) - aligned(tensor_bytes(last)) + tensor_bytes(last);
}

void tensor_name(const TensorSpec& spec, char* out, size_t capacity) {
  size_t n = 0;
  const auto put = [&](char c) {
    if (n + 1 < capacity) out[n++] = c;
  };
  if (spec.layer != format::kNone) {
    for (const char* p = "layers."; *p != 0; ++p) put(*p);
    char digits[10];
    size_t n_digits = 0;
    uint32_t rest = spec.layer;
    do {
      digits[n_digits++] = static_cast<char>('0' + rest % 10);
      rest /= 10;
    } while (rest != 0);
    while (n_digits != 0) put(digits[--n_digits]);
    put('.');
  }
  for (const char* p = role_row(spec.role).name; *p != 0; ++p) put(*p);
  if (capacity != 0) out[n] = 0;
}

}  // namespace cria
