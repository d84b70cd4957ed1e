#include "converter/gguf/gguf_names.h"

#include <algorithm>
#include <iterator>

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
    {"token_embd.weight", "model.embed_tokens.weight"},
    {"output_norm.weight", "model.norm.weight"},
    {"output.weight", "lm_head.weight"},
};

// Of blk.N, before ".weight" or ".bias".
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
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
};
constexpr std::string_view kFusedGateUp = "mlp.gate_up_proj";

}  // namespace

const GgufArchitecture& find_gguf_architecture(std::string_view name, const std::string& where) {
  std::string names;
  for (const GgufArchitecture& known : kArchitectures) {
    if (known.name == name) return known;
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  throw ProgramError(ExitCode::kInvalidInput,
                     where + ": architecture '" + shown(name) +
                         "' is not supported; of GGUF files these are: " + names);
}

GgufTensorName hugging_face_name(const GgufArchitecture& architecture, std::string_view name) {
  const GgufTensorName own = {std::string(name), GgufRows::kPlain};
  for (const NamePair& pair : kWholeNames) {
    if (pair.gguf == name) return {std::string(pair.hugging_face), pair.rows};
  }
  constexpr std::string_view kLayer = "blk.";
  if (!name.starts_with(kLayer)) return own;
  const std::string_view in_layers = name.substr(kLayer.size());
  const size_t layer_end = in_layers.find('.');
  const size_t kind = in_layers.rfind('.');
  if (layer_end == std::string_view::npos || kind == layer_end) return own;
  const std::string_view layer = in_layers.substr(0, layer_end);
  const std::string_view stem = in_layers.substr(layer_end + 1, kind - layer_end - 1);
  const auto* pair = std::find_if(std::begin(kLayerNames), std::end(kLayerNames),
                                  [stem](const NamePair& p) { return p.gguf == stem; });
  if (pair == std::end(kLayerNames)) return own;
  const bool fused = architecture.fuses_gate && stem == "ffn_up";
  std::string result = "model.layers.";
  result.append(layer).append(".").append(fused ? kFusedGateUp : pair->hugging_face);
  result.append(in_layers.substr(kind));
  return {result, pair->rows};
}

}  // namespace cria::converter
