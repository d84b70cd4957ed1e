#include "converter/gguf/gguf_names.h"

#include <optional>

#include "converter/error.h"

namespace cria::converter {
namespace {

// A Mistral is a "llama" too.
constexpr GgufArchitecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", "llama", true, false},
    {"granite", "GraniteForCausalLM", "granite", true, false},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", false, false},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", false, false},
    {"smollm3", "SmolLM3ForCausalLM", "smollm3", true, false},
    {"phi3", "Phi3ForCausalLM", "phi3", false, true},
};

struct NamePair {
  std::string_view gguf;
  std::string_view hugging_face;
  GgufRows rows = GgufRows::kPlain;
};

constexpr NamePair kWholeNames[] = {
    {kGgufEmbedding, "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {kGgufOutput, "lm_head.weight"},
};

// Of blk.N, before ".weight" or ".bias".
constexpr std::string_view kUp = "ffn_up";
constexpr NamePair kLayerNames[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj", GgufRows::kOfQueries},
    {"attn_k", "self_attn.k_proj", GgufRows::kOfKeys},
    {"attn_v", "self_attn.v_proj"},
    {"attn_qkv", "self_attn.qkv_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {kUp, "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
constexpr std::string_view kFusedGateUp = "mlp.gate_up_proj";
constexpr std::string_view kGgufLayer = "blk.";
constexpr std::string_view kHuggingFaceLayer = "model.layers.";

// A tensor of a layer: "blk." "0" "attn_q" ".weight".
struct LayerTensor {
  std::string_view layer;
  std::string_view stem;
  std::string_view kind;
};

std::optional<LayerTensor> split(std::string_view name, std::string_view begins) {
  if (!name.starts_with(begins)) return std::nullopt;
  const std::string_view in_layers = name.substr(begins.size());
  const size_t layer_end = in_layers.find('.');
  const size_t kind = in_layers.rfind('.');
  if (layer_end == std::string_view::npos || kind == layer_end) return std::nullopt;
  return LayerTensor{in_layers.substr(0, layer_end),
                     in_layers.substr(layer_end + 1, kind - layer_end - 1), in_layers.substr(kind)};
}

std::string joined(std::string_view begins, const LayerTensor& tensor, std::string_view stem) {
  std::string name(begins);
  return name.append(tensor.layer).append(".").append(stem).append(tensor.kind);
}

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

GgufTensorName hugging_face_name(const GgufArchitecture& architecture, std::string_view name) {
  const GgufTensorName own = {std::string(name), GgufRows::kPlain};
  for (const NamePair& pair : kWholeNames) {
    if (pair.gguf == name) return {std::string(pair.hugging_face), pair.rows};
  }
  const std::optional<LayerTensor> tensor = split(name, kGgufLayer);
  if (!tensor) return own;
  for (const NamePair& pair : kLayerNames) {
    if (pair.gguf != tensor->stem) continue;
    const bool is_fused = architecture.fuses_gate && pair.gguf == kUp;
    return {joined(kHuggingFaceLayer, *tensor, is_fused ? kFusedGateUp : pair.hugging_face),
            pair.rows};
  }
  return own;
}

std::string gguf_name(const GgufArchitecture& architecture, std::string_view name) {
  for (const NamePair& pair : kWholeNames) {
    if (pair.hugging_face == name) return std::string(pair.gguf);
  }
  const std::optional<LayerTensor> tensor = split(name, kHuggingFaceLayer);
  if (!tensor) return std::string(name);
  if (architecture.fuses_gate && tensor->stem == kFusedGateUp) {
    return joined(kGgufLayer, *tensor, kUp);
  }
  for (const NamePair& pair : kLayerNames) {
    if (pair.hugging_face == tensor->stem) return joined(kGgufLayer, *tensor, pair.gguf);
  }
  return std::string(name);
}

}  // namespace cria::converter
