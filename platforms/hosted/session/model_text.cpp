#include "platforms/hosted/session/model_text.h"

#include <algorithm>
#include <iterator>

namespace cria::hosted {
namespace {

constexpr const char* kUnknown = "unknown";

template <size_t kCount>
const char* name_at(const char* const (&names)[kCount], uint32_t index) {
  return index < kCount ? names[index] : kUnknown;
}

// Keys and values of one position and KV head, as cria.h says.
double kv_row_bytes(uint32_t head_dim, uint32_t kv_format) {
  constexpr uint32_t kScaleBytes = 4;
  constexpr uint32_t kValueGroup = 32;
  if (kv_format == CRIA_KV_F32) return 8.0 * head_dim;
  if (kv_format == CRIA_KV_INT8) return 2.0 * (head_dim + kScaleBytes);
  const uint32_t n_groups = (head_dim + kValueGroup - 1) / kValueGroup;
  return 1.5 * head_dim + kScaleBytes + 2.0 * n_groups;
}

}  // namespace

const char* backend_name(uint32_t backend) {
  constexpr const char* kNames[] = {"auto", "exact", "xnnpack"};
  return name_at(kNames, static_cast<uint32_t>(backend));
}

std::string kernels_text(std::string_view backend, std::string_view isa) {
  const bool is_exact = backend == "exact";
  return std::string(backend) + ", " + std::string(isa) +
         (is_exact ? " kernels" : " kernels elsewhere");
}

const char* kv_format_name(uint32_t format) {
  constexpr const char* kNames[] = {"int8", "f32", "k8v4"};
  return name_at(kNames, static_cast<uint32_t>(format));
}

std::optional<cria_role> role_of(std::string_view name) {
  struct RoleName {
    std::string_view name;
    cria_role role;
  };
  constexpr RoleName kRoles[] = {{"system", CRIA_SYSTEM},
                                 {"developer", CRIA_SYSTEM},
                                 {"user", CRIA_USER},
                                 {"assistant", CRIA_ASSISTANT}};
  for (const RoleName& row : kRoles) {
    if (name == row.name) return row.role;
  }
  return std::nullopt;
}

uint64_t decode_bytes_per_token(const cria_model_info& info, uint32_t kv_format,
                                uint32_t n_positions) {
  const uint64_t not_read = info.tied_embedding != 0 ? 0 : info.embedding_bytes;
  const auto weights = static_cast<double>(info.weight_bytes - not_read);
  const uint32_t n_seen =
      info.sliding_window != 0 ? std::min(n_positions, info.sliding_window) : n_positions;
  const double kv_bytes =
      kv_row_bytes(info.head_dim, kv_format) * info.n_layers * info.n_kv_heads * n_seen;
  return static_cast<uint64_t>(weights + kv_bytes);
}

}  // namespace cria::hosted
