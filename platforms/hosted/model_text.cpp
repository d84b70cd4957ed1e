#include "platforms/hosted/model_text.h"

#include <algorithm>
#include <iterator>

namespace cria::hosted {
namespace {

constexpr const char* kUnknown = "unknown";

template <size_t kCount>
const char* name_at(const char* const (&names)[kCount], uint32_t index) {
  return index < kCount ? names[index] : kUnknown;
}

// Stored bytes of a [rows][cols] matrix in layout tile16, without its padding.
double matrix_bytes(uint32_t format, uint32_t group_size, double rows, double cols) {
  constexpr double kBytesOfFloat = 4.0;
  switch (format) {
    case CRIA_F32:
      return kBytesOfFloat * rows * cols;
    case CRIA_INT8:
      return rows * (cols + kBytesOfFloat);
    case CRIA_INT4:
      return rows * (cols / 2.0 + 2.0 * cols / std::max(group_size, 1U));
    default:
      return 2.0 * rows * cols;
  }
}

}  // namespace

const char* backend_name(uint32_t backend) {
  constexpr const char* kNames[] = {"auto", "exact", "xnnpack"};
  return name_at(kNames, static_cast<uint32_t>(backend));
}

const char* kv_format_name(uint32_t format) {
  constexpr const char* kNames[] = {"int8", "f32"};
  return name_at(kNames, static_cast<uint32_t>(format));
}

uint64_t decode_bytes_per_token(const cria_model_info& info, uint32_t kv_format,
                                uint32_t n_positions) {
  constexpr double kScaleBytes = 4.0;
  double weights = static_cast<double>(info.weight_bytes);
  if (info.tied_embedding == 0) {
    weights -= matrix_bytes(info.embedding_format, info.group_size, info.vocab_size, info.d_model);
  }
  const double head_bytes =
      kv_format == CRIA_KV_F32 ? 4.0 * info.head_dim : info.head_dim + kScaleBytes;
  const double kv_bytes = 2.0 * info.n_layers * info.n_kv_heads * head_bytes * n_positions;
  return static_cast<uint64_t>(std::max(weights, 0.0) + kv_bytes);
}

}  // namespace cria::hosted
