#include "converter/gguf/gguf_names.h"

#include "converter/error.h"

namespace cria::converter {
namespace {

using format::Architecture;
using format::TensorRole;

// A Mistral is a "llama" too.
constexpr GgufArchitecture kArchitectures[] = {
    {"llama", Architecture::kLlama, true},     {"granite", Architecture::kGranite, true},
    {"qwen2", Architecture::kQwen2, false},    {"qwen3", Architecture::kQwen3, false},
    {"smollm3", Architecture::kSmolLm3, true}, {"phi3", Architecture::kPhi3, false},
};

constexpr RoleName kRows[] = {
    {TensorNames::kPhi3, TensorRole::kQ, "attn_qkv.weight"},
    {TensorNames::kPhi3, TensorRole::kK, "attn_qkv.weight"},
    {TensorNames::kPhi3, TensorRole::kV, "attn_qkv.weight"},
    {TensorNames::kPhi3, TensorRole::kGate, "ffn_up.weight"},
    {TensorNames::kPhi3, TensorRole::kUp, "ffn_up.weight"},

    {TensorNames::kLlama, TensorRole::kEmbedding, kGgufEmbedding},
    {TensorNames::kLlama, TensorRole::kMixerNorm, "attn_norm.weight"},
    {TensorNames::kLlama, TensorRole::kQ, "attn_q.weight"},
    {TensorNames::kLlama, TensorRole::kK, "attn_k.weight"},
    {TensorNames::kLlama, TensorRole::kV, "attn_v.weight"},
    {TensorNames::kLlama, TensorRole::kQNorm, "attn_q_norm.weight"},
    {TensorNames::kLlama, TensorRole::kKNorm, "attn_k_norm.weight"},
    {TensorNames::kLlama, TensorRole::kO, "attn_output.weight"},
    {TensorNames::kLlama, TensorRole::kFfnNorm, "ffn_norm.weight"},
    {TensorNames::kLlama, TensorRole::kGate, "ffn_gate.weight"},
    {TensorNames::kLlama, TensorRole::kUp, "ffn_up.weight"},
    {TensorNames::kLlama, TensorRole::kDown, "ffn_down.weight"},
    {TensorNames::kLlama, TensorRole::kFinalNorm, "output_norm.weight"},
    {TensorNames::kLlama, TensorRole::kLmHead, kGgufOutput},
};
constexpr RoleNames kGgufNames = {"blk.", kRows};

}  // namespace

const GgufArchitecture& find_gguf_architecture(const JsonObject& metadata) {
  constexpr const char* kKey = "general.architecture";
  const std::optional<std::string> name = metadata.text(kKey);
  std::string names;
  for (const GgufArchitecture& known : kArchitectures) {
    if (name && known.name == *name) return known;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  metadata.refuse(kKey, (name ? "'" + shown(*name) + "' is not supported" : "is missing") +
                            "; of GGUF files these are: " + names);
}

std::optional<NamedRole> gguf_role(const GgufArchitecture& architecture, std::string_view name) {
  return find_role(kGgufNames, architecture.row().names, name);
}

std::string hugging_face_name(const GgufArchitecture& architecture, std::string_view name) {
  const std::optional<NamedRole> role = gguf_role(architecture, name);
  return role ? role_name_in(kHuggingFaceNames, architecture.row().names, *role)
              : std::string(name);
}

std::string gguf_name(const GgufArchitecture& architecture, std::string_view name) {
  const TensorNames own = architecture.row().names;
  const std::optional<NamedRole> role = find_role(kHuggingFaceNames, own, name);
  const std::string found = role ? role_name_in(kGgufNames, own, *role) : "";
  return found.empty() ? std::string(name) : found;
}

}  // namespace cria::converter
