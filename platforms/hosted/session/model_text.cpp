#include "platforms/hosted/session/model_text.h"

#include <iterator>

namespace cria::hosted {
namespace {

constexpr const char* kUnknown = "unknown";

template <size_t kCount>
const char* name_at(const char* const (&names)[kCount], uint32_t index) {
  return index < kCount ? names[index] : kUnknown;
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
  const uint64_t not_read = info.tied_embedding != 0 ? 0 : info.embedding_bytes;
  const auto weights = static_cast<double>(info.weight_bytes - not_read);
  const double head_bytes =
      kv_format == CRIA_KV_F32 ? 4.0 * info.head_dim : info.head_dim + kScaleBytes;
  const double kv_bytes = 2.0 * info.n_layers * info.n_kv_heads * head_bytes * n_positions;
  return static_cast<uint64_t>(weights + kv_bytes);
}

}  // namespace cria::hosted
