// Names of options and roles, and sizes of what is read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cria.h>

namespace cria::hosted {

// "exact", "xnnpack", "auto".
const char* backend_name(uint32_t backend);

// "exact, avx2 kernels"; XNNPACK brings its own for the matrices:
// "xnnpack, avx2 kernels elsewhere".
std::string kernels_text(std::string_view backend, std::string_view isa);

const char* kv_format_name(uint32_t format);

// Plain messages as the chat functions take them; view outlives it.
[[nodiscard]] cria_conversation conversation_of(const std::vector<cria_message>& view,
                                                cria_chat_ending ending);

// "last token", "mean" or "first token", of a cria_pooling.
const char* pooling_name(uint32_t pooling);

// Of a message in the JSON of a conversation; "developer" is another name of the system's.
std::optional<cria_role> role_of(std::string_view name);

// Layers that are alike, in the order of cria_find_layer_kind.
std::vector<cria_layer_kind> layer_kinds(const cria_model_info& info);

// Bytes of weights and KV cache that one decoded token reads, at n_positions of context: all
// weights but the embedding's rows that a tied model does not use as its output layer.
uint64_t decode_bytes_per_token(const cria_model_info& info, uint32_t kv_format,
                                uint32_t n_positions);

}  // namespace cria::hosted
