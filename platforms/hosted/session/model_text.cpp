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
double kv_row_bytes(const cria_layer_kind& kind, uint32_t kv_format) {
  constexpr double kScaleBytes = 4;
  constexpr uint32_t kValueGroup = 32;
  const double both = kind.key_dim + kind.value_dim;
  if (kv_format == CRIA_KV_F32) return 4 * both;
  if (kv_format == CRIA_KV_INT8) return both + 2 * kScaleBytes;
  const uint32_t n_groups = (kind.value_dim + kValueGroup - 1) / kValueGroup;
  return kind.key_dim + 0.5 * kind.value_dim + kScaleBytes + 2.0 * n_groups;
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

cria_conversation conversation_of(const std::vector<cria_message>& view, cria_chat_ending ending) {
  cria_conversation conversation = {};
  conversation.messages = view.data();
  conversation.n_messages = view.size();
  conversation.ending = ending;
  return conversation;
}

const char* pooling_name(uint32_t pooling) {
  constexpr const char* kNames[] = {"last token", "mean", "first token"};
  return pooling >= CRIA_POOLING_LAST && pooling <= CRIA_POOLING_FIRST
             ? kNames[pooling - CRIA_POOLING_LAST]
             : "unknown";
}

std::optional<cria_role> role_of(std::string_view name) {
  struct RoleName {
    std::string_view name;
    cria_role role;
  };
  constexpr RoleName kRoles[] = {{"system", CRIA_SYSTEM},
                                 {"developer", CRIA_SYSTEM},
                                 {"user", CRIA_USER},
                                 {"assistant", CRIA_ASSISTANT},
                                 {"tool", CRIA_TOOL}};
  for (const RoleName& row : kRoles) {
    if (name == row.name) return row.role;
  }
  return std::nullopt;
}

std::vector<cria_layer_kind> layer_kinds(const cria_model_info& info) {
  std::vector<cria_layer_kind> kinds;
  cria_layer_kind kind;
  while (cria_find_layer_kind(&info, static_cast<uint32_t>(kinds.size()), &kind) == CRIA_OK) {
    kinds.push_back(kind);
  }
  return kinds;
}

uint64_t decode_bytes_per_token(const cria_model_info& info, uint32_t kv_format,
                                uint32_t n_positions) {
  const auto weights = static_cast<double>(info.active_bytes);
  double kv_bytes = 0;
  for (const cria_layer_kind& kind : layer_kinds(info)) {
    const uint32_t n_seen = kind.window != 0 ? std::min(n_positions, kind.window) : n_positions;
    kv_bytes += kv_row_bytes(kind, kv_format) * kind.n_layers * kind.n_kv_heads * n_seen;
  }
  return static_cast<uint64_t>(weights + kv_bytes);
}

}  // namespace cria::hosted
