// A small Gemma 4 of the form of E2B: per-layer embeddings, and last layers that read the keys and
// values of earlier ones.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {

inline constexpr const char* kPerLayerTable = "model.embed_tokens_per_layer.weight";
inline constexpr size_t kPerLayerWidth = 24;

// Norms and scalars that are nowhere near zero.
inline void raise(TestTensor* tensor) {
  for (size_t at = 0; at < tensor->data.size(); at += sizeof(float)) {
    float value;
    std::memcpy(&value, tensor->data.data() + at, sizeof value);
    value += 0.25f;
    std::memcpy(tensor->data.data() + at, &value, sizeof value);
  }
}

// 64 wide, four layers: one with a window and one without, and two that read theirs. Its tensors
// stand in the order of a model file.
inline TinyCheckpoint tiny_gemma4() {
  constexpr uint64_t kModel = 64;
  constexpr uint64_t kTokens = 50;
  constexpr uint64_t kHeads = 4;
  constexpr uint64_t kFfn = 72;
  constexpr uint64_t kLayers = 4;
  constexpr uint64_t kOwn = 2;
  TinyCheckpoint checkpoint;
  checkpoint.config = {
      {"architectures", R"(["Gemma4ForCausalLM"])"},
      {"model_type", R"("gemma4_text")"},
      {"hidden_size", std::to_string(kModel)},
      {"head_dim", "16"},
      {"global_head_dim", "32"},
      {"intermediate_size", std::to_string(kFfn)},
      {"num_attention_heads", std::to_string(kHeads)},
      {"num_key_value_heads", "1"},
      {"num_hidden_layers", std::to_string(kLayers)},
      {"num_kv_shared_layers", std::to_string(kLayers - kOwn)},
      {"use_double_wide_mlp", "true"},
      {"layer_types",
       R"(["sliding_attention","full_attention","sliding_attention","full_attention"])"},
      {"sliding_window", "4"},
      {"hidden_size_per_layer_input", std::to_string(kPerLayerWidth)},
      {"vocab_size_per_layer_input", std::to_string(kTokens)},
      {"vocab_size", std::to_string(kTokens)},
      {"max_position_embeddings", "128"},
      {"bos_token_id", "1"},
      {"eos_token_id", "2"}};
  checkpoint.tensors.clear();
  std::mt19937 rng(21);
  const auto add = [&](const std::string& name, std::vector<uint64_t> shape) {
    TestTensor tensor = random_tensor(name, shape, &rng);
    if (shape.size() == 1) raise(&tensor);
    checkpoint.tensors.push_back(tensor);
  };
  add("model.embed_tokens.weight", {kTokens, kModel});
  add(kPerLayerTable, {kTokens, kLayers * kPerLayerWidth});
  add("model.per_layer_model_projection.weight", {kLayers * kPerLayerWidth, kModel});
  add("model.per_layer_projection_norm.weight", {kPerLayerWidth});
  for (uint64_t i = 0; i < kLayers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const uint64_t width = i % 2 == 0 ? 16 : 32;
    const uint64_t ffn = i < kOwn ? kFfn : 2 * kFfn;
    add(layer + "input_layernorm.weight", {kModel});
    add(layer + "self_attn.q_proj.weight", {kHeads * width, kModel});
    if (i < kOwn) {
      add(layer + "self_attn.k_proj.weight", {width, kModel});
      add(layer + "self_attn.v_proj.weight", {width, kModel});
      add(layer + "self_attn.k_norm.weight", {width});
    }
    add(layer + "self_attn.q_norm.weight", {width});
    add(layer + "self_attn.o_proj.weight", {kModel, kHeads * width});
    add(layer + "post_attention_layernorm.weight", {kModel});
    add(layer + "pre_feedforward_layernorm.weight", {kModel});
    add(layer + "mlp.gate_proj.weight", {ffn, kModel});
    add(layer + "mlp.up_proj.weight", {ffn, kModel});
    add(layer + "mlp.down_proj.weight", {kModel, ffn});
    add(layer + "post_feedforward_layernorm.weight", {kModel});
    add(layer + "per_layer_input_gate.weight", {kPerLayerWidth, kModel});
    add(layer + "per_layer_projection.weight", {kModel, kPerLayerWidth});
    add(layer + "post_per_layer_input_norm.weight", {kModel});
    add(layer + "layer_scalar", {1});
  }
  add("model.norm.weight", {kModel});
  return checkpoint;
}

}  // namespace cria::test
