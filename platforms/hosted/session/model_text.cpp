#include "platforms/hosted/session/model_text.h"

#include <iterator>

#include "quant/memory_plan.h"

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
  constexpr const char* kNames[] = {"int8", "f32", "k8v4"};
  return name_at(kNames, static_cast<uint32_t>(format));
}

uint64_t decode_bytes_per_token(const cria_model_info& info, uint32_t kv_format,
                                uint32_t n_positions) {
  const uint64_t not_read = info.tied_embedding != 0 ? 0 : info.embedding_bytes;
  const auto weights = static_cast<double>(info.weight_bytes - not_read);
  const KvRowBytes row = kv_row_bytes(info.head_dim, static_cast<KvFormat>(kv_format));
  const double row_bytes =
      static_cast<double>(row.keys + row.values + row.key_scales + row.value_scales);
  const double kv_bytes = row_bytes * info.n_layers * info.n_kv_heads * n_positions;
  return static_cast<uint64_t>(weights + kv_bytes);
}

}  // namespace cria::hosted
