#include "quant/model_layout.h"

#include <cmath>

#include "quant/align.h"
#include "quant/architectures.h"
#include "quant/tensor_roles.h"

namespace cria {
namespace {

using format::MatrixRole;
using format::ModelConfig;
using format::NumberFormat;
using format::TensorRole;

bool in_range(uint32_t value, uint32_t low, uint32_t high) { return value >= low && value <= high; }

// Multipliers must be usable numbers: a NaN or an infinity would reach every logit.
bool is_finite(float value) { return std::isfinite(value); }

bool is_matrix_format(const format::MatrixFormat& f) {
  return f.reserved == 0 && is_number_format(f.number_format) &&
         is_group_size(static_cast<NumberFormat>(f.number_format), f.group_size);
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

TensorSpec spec_of(const ModelConfig& c, const TensorRoleRow& row, uint32_t layer) {
  const bool is_matrix = row.matrix != kNoMatrix;
  const format::MatrixFormat vector_format = {static_cast<uint8_t>(NumberFormat::kF32), 0, 0};
  const format::MatrixFormat& f = is_matrix ? c.matrix_format[row.matrix] : vector_format;
  return {row.role,
          layer,
          is_matrix,
          {extent(row.rows, c), extent(row.cols, c), static_cast<NumberFormat>(f.number_format),
           f.group_size}};
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

uint64_t chunks_of(uint64_t bytes) {
  return (bytes + format::kChunkRawBytes - 1) / format::kChunkRawBytes;
}

// Sum of value(spec) over the tensors before place index. The layers are alike, so those that lie
// before it count by a product: opening a model stays linear in its tensors.
template <typename Value>
uint64_t sum_before(const ModelConfig& c, uint32_t index, const Value& value) {
  const auto sum = [&](uint32_t begin, uint32_t end) {
    uint64_t n = 0;
    for (uint32_t i = begin; i < end; ++i) n += value(tensor_spec(c, i));
    return n;
  };
  const uint32_t before = tensors_at(TensorPlace::kBeforeLayers, c);
  if (index <= before) return sum(0, index);
  const uint32_t per_layer = tensors_at(TensorPlace::kInLayers, c);
  const uint32_t passed = (index - before) / per_layer;
  const uint32_t n_layers = passed < c.n_layers ? passed : c.n_layers;
  return sum(0, before) + n_layers * sum(before, before + per_layer) +
         sum(before + n_layers * per_layer, index);
}

}  // namespace

const char* check_config(const ModelConfig& c) {
  if (!is_architecture(c.architecture)) return "architecture";
  if ((c.flags & ~format::kKnownFlags) != 0) return "flags";
  if (c.compression > static_cast<uint32_t>(format::Compression::kZstd)) return "compression";
  if (const char* field = check_sizes(c)) return field;
  if (const char* field = check_numbers(c)) return field;
  if (const char* field = check_tokens(c)) return field;
  for (const format::MatrixFormat& f : c.matrix_format) {
    if (!is_matrix_format(f)) return "matrix_format";
  }
  const auto& embedding = c.matrix_format[static_cast<size_t>(MatrixRole::kEmbedding)];
  const auto& lm_head = c.matrix_format[static_cast<size_t>(MatrixRole::kLmHead)];
  if ((c.flags & format::kTiedEmbedding) != 0 &&
      (embedding.number_format != lm_head.number_format ||
       embedding.group_size != lm_head.group_size)) {
    return "matrix_format";
  }
  for (const uint8_t byte : c.reserved) {
    if (byte != 0) return "reserved";
  }
  return nullptr;
}

MatrixShape role_shape(const ModelConfig& c, TensorRole role) {
  return spec_of(c, role_row(role), format::kNone).shape;
}

uint32_t tensor_count(const ModelConfig& c) {
  return tensors_at(TensorPlace::kBeforeLayers, c) +
         c.n_layers * tensors_at(TensorPlace::kInLayers, c) +
         tensors_at(TensorPlace::kBehindLayers, c);
}

TensorSpec tensor_spec(const ModelConfig& c, uint32_t index) {
  const uint32_t before = tensors_at(TensorPlace::kBeforeLayers, c);
  if (index < before) {
    return spec_of(c, row_at(TensorPlace::kBeforeLayers, c, index), format::kNone);
  }
  const uint32_t per_layer = tensors_at(TensorPlace::kInLayers, c);
  const uint32_t layer = (index - before) / per_layer;
  if (layer < c.n_layers) {
    return spec_of(c, row_at(TensorPlace::kInLayers, c, (index - before) % per_layer), layer);
  }
  const uint32_t behind = index - before - c.n_layers * per_layer;
  return spec_of(c, row_at(TensorPlace::kBehindLayers, c, behind), format::kNone);
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

uint32_t tensor_chunk_count(const TensorSpec& spec) {
  return static_cast<uint32_t>(chunks_of(tensor_code_bytes(spec)) +
                               chunks_of(tensor_scale_bytes(spec)));
}

uint64_t chunk_count(const ModelConfig& c) { return first_chunk_of(c, tensor_count(c)); }

uint64_t first_chunk_of(const ModelConfig& c, uint32_t index) {
  return sum_before(c, index, tensor_chunk_count);
}

bool is_kept(const TensorSpec& spec, KeptTensors kept) {
  return kept == KeptTensors::kAll || !spec.is_matrix || spec.role == TensorRole::kEmbedding;
}

uint64_t tensor_offset(const ModelConfig& c, uint32_t index, KeptTensors kept) {
  return sum_before(c, index, [&](const TensorSpec& spec) {
    return is_kept(spec, kept) ? aligned(tensor_bytes(spec)) : 0;
  });
}

uint64_t all_tensor_bytes(const ModelConfig& c) {
  return tensor_offset(c, tensor_count(c), KeptTensors::kAll);
}

uint64_t uncompressed_data_bytes(const ModelConfig& c) {
  const uint32_t last = tensor_count(c) - 1;
  return tensor_offset(c, last, KeptTensors::kAll) + tensor_bytes(tensor_spec(c, last));
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
