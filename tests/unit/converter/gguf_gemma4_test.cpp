// GGUF files of Gemma 4 become the files of their folders; what does not fit is refused by their
// own names.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/unit/converter/gguf_pair.h"
#include "tests/unit/converter/tiny_gemma4.h"

namespace cria::test {
namespace {

constexpr uint32_t kFloats = 0;
constexpr uint32_t kCounts = 4;
constexpr uint32_t kFlags = 7;

// The names after "blk.N." by those after "model.layers.N.", and of others as they are.
const std::map<std::string, std::string> kNames = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {kPerLayerTable, "per_layer_token_embd.weight"},
    {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight"},
    {"model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"pre_feedforward_layernorm.weight", "ffn_norm.weight"},
    {"post_feedforward_layernorm.weight", "post_ffw_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"per_layer_input_gate.weight", "inp_gate.weight"},
    {"per_layer_projection.weight", "proj.weight"},
    {"post_per_layer_input_norm.weight", "post_norm.weight"},
    {"layer_scalar", "layer_output_scale.weight"},
    {"router.proj.weight", "ffn_gate_inp.weight"},
    {"router.scale", "ffn_gate_inp.scale"},
    {"router.per_expert_scale", "ffn_down_exps.scale"},
    {"experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"experts.down_proj", "ffn_down_exps.weight"},
    {"pre_feedforward_layernorm_2.weight", "pre_ffw_norm_2.weight"},
    {"post_feedforward_layernorm_1.weight", "post_ffw_norm_1.weight"},
    {"post_feedforward_layernorm_2.weight", "post_ffw_norm_2.weight"},
};

std::string gguf_name_of(const std::string& name) {
  const std::string layers = "model.layers.";
  if (!name.starts_with(layers)) return kNames.at(name);
  const size_t dot = name.find('.', layers.size());
  return "blk." + name.substr(layers.size(), dot - layers.size()) + "." +
         kNames.at(name.substr(dot + 1));
}

struct Gemma4Pair {
  TinyCheckpoint folder = tiny_gemma4();
  // After "gemma4.", as they are written.
  std::map<std::string, uint32_t> counts = {{"block_count", 4},
                                            {"embedding_length", 64},
                                            {"context_length", 128},
                                            {"vocab_size", 50},
                                            {"attention.head_count", 4},
                                            {"attention.key_length", 32},
                                            {"attention.value_length", 32},
                                            {"attention.key_length_swa", 16},
                                            {"attention.value_length_swa", 16},
                                            {"attention.sliding_window", 4},
                                            {"attention.shared_kv_layers", 2},
                                            {"embedding_length_per_layer_input", kPerLayerWidth},
                                            {"rope.dimension_count", 32},
                                            {"rope.dimension_count_swa", 16}};
  std::vector<uint32_t> widths = {72, 72, 144, 144};
  std::vector<uint32_t> key_heads = {1};
  std::vector<uint8_t> slides = {1, 0, 1, 0};
  std::vector<float> factors = {1,     1,     1,     1,     1e30F, 1e30F, 1e30F, 1e30F,
                                1e30F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F, 1e30F};

  Gemma4Pair() {
    for (const char* key : {"bos_token_id", "eos_token_id"}) folder.config[key] = "null";
  }

  void write(const std::filesystem::path& path) const {
    GgufWriter gguf;
    gguf.put_text("general.architecture", "gemma4");
    for (const auto& [key, value] : counts) gguf.put_count("gemma4." + key, value);
    const auto put = [&](const char* key, const std::vector<uint32_t>& values) {
      if (values.size() == 1) return gguf.put_count(key, values.front());
      gguf.put_numbers(key, kCounts, values);
    };
    put("gemma4.feed_forward_length", widths);
    put("gemma4.attention.head_count_kv", key_heads);
    gguf.put_numbers("gemma4.attention.sliding_window_pattern", kFlags, slides);
    gguf.put_number("gemma4.attention.layer_norm_rms_epsilon", 1e-6F);
    gguf.put_number("gemma4.rope.freq_base", 1e6F);
    gguf.put_number("gemma4.rope.freq_base_swa", 1e4F);
    for (const TestTensor& tensor : folder.tensors) {
      gguf.tensors.push_back({gguf_name_of(tensor.name), tensor.shape, kFloats, tensor.data});
    }
    std::string bytes;
    for (const float factor : factors) bytes += GgufWriter::bytes_of_number(factor);
    gguf.tensors.push_back({"rope_freqs.weight", {factors.size()}, kFloats, bytes});
    write_file(path, gguf.bytes());
  }

  void expect_same() const {
    const TempFolder temporary;
    folder.write(temporary / "hf");
    write(temporary / "m.gguf");
    expect_same_models(temporary / "hf", temporary / "m.gguf");
  }
};

TEST(GgufGemma4, OfPerLayerEmbeddingsAndSharedKeysIsItsFolder) { Gemma4Pair().expect_same(); }

TEST(GgufGemma4, OfAPartThatDoesNotDivideEvenlyIsItsFolder) {
  Gemma4Pair pair;
  pair.folder.config["rope_parameters"] =
      R"({"full_attention":{"rope_type":"proportional","rope_theta":1000000.0,)"
      R"("partial_rotary_factor":0.7},"sliding_attention":{"rope_type":"default",)"
      R"("rope_theta":10000.0}})";
  std::fill_n(pair.factors.begin(), 11, 1.0F);
  pair.expect_same();
}

// Values that are keys, and experts beside an MLP.
TEST(GgufGemma4, WithExpertsIsItsFolder) {
  constexpr uint64_t kRows = 40;
  Gemma4Pair pair;
  std::mt19937 rng(3);
  std::vector<TestTensor>& tensors = pair.folder.tensors;
  std::erase_if(tensors, [](const TestTensor& tensor) {
    const auto has = [&](const char* part) { return tensor.name.find(part) != std::string::npos; };
    return has("layers.2.") || has("layers.3.") || has("per_layer") || has("layers.1.self_attn.v");
  });
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    const auto add = [&](const char* name, const std::vector<uint64_t>& shape) {
      tensors.push_back(random_tensor(layer + name, shape, &rng));
    };
    add("router.proj.weight", {kExperts, kWidth});
    add("router.scale", {kWidth});
    add("router.per_expert_scale", {kExperts});
    add("experts.gate_up_proj", {kExperts, 2 * kRows, kWidth});
    add("experts.down_proj", {kExperts, kWidth, kRows});
    add("pre_feedforward_layernorm_2.weight", {kWidth});
    add("post_feedforward_layernorm_1.weight", {kWidth});
    add("post_feedforward_layernorm_2.weight", {kWidth});
  }
  // Two heads in the layer with a window.
  for (const char* name : {"k_proj", "v_proj"}) {
    const std::string whole = std::string("model.layers.0.self_attn.") + name + ".weight";
    pair.folder.tensor(whole) = random_tensor(whole, {32, kWidth}, &rng);
  }
  pair.folder.config["num_hidden_layers"] = "2";
  pair.folder.config["num_kv_shared_layers"] = "0";
  pair.folder.config["hidden_size_per_layer_input"] = "0";
  pair.folder.config["layer_types"] = R"(["sliding_attention","full_attention"])";
  pair.folder.config["num_key_value_heads"] = "2";
  pair.folder.config["num_global_key_value_heads"] = "1";
  pair.folder.config["attention_k_eq_v"] = "true";
  pair.folder.config["enable_moe_block"] = "true";
  pair.folder.config["num_experts"] = std::to_string(kExperts);
  pair.folder.config["top_k_experts"] = "2";
  pair.folder.config["moe_intermediate_size"] = std::to_string(kRows);
  pair.counts["block_count"] = 2;
  pair.counts["attention.shared_kv_layers"] = 0;
  pair.counts["embedding_length_per_layer_input"] = 0;
  pair.counts["expert_count"] = kExperts;
  pair.counts["expert_used_count"] = 2;
  pair.counts["expert_feed_forward_length"] = kRows;
  pair.widths = {72};
  pair.key_heads = {2, 1};
  pair.slides = {1, 0};
  pair.expect_same();
}

TEST(GgufGemma4, WhatDoesNotFitIsRefusedByItsOwnName) {
  struct Case {
    const char* part;
    std::function<void(Gemma4Pair*)> change;
  };
  const Case cases[] = {
      {"gemma4.feed_forward_length must be one number, but",
       [](Gemma4Pair* p) {
         p->widths = {72, 73, 144, 144};
       }},
      {"gemma4.feed_forward_length must be one number for each layer",
       [](Gemma4Pair* p) {
         p->widths = {72, 72, 144};
       }},
      {"gemma4.attention.head_count_kv must be the same",
       [](Gemma4Pair* p) {
         p->key_heads = {1, 2, 1, 2};
       }},
      {"gemma4.attention.head_count_kv must be the same",
       [](Gemma4Pair* p) {
         p->key_heads = {1, 1, 2, 1};
       }},
      {"gemma4.attention.sliding_window_pattern must be true or false for each layer",
       [](Gemma4Pair* p) { p->counts["block_count"] = 4'000'000'000; }},
      {"gemma4.attention.value_length_swa must be 16",
       [](Gemma4Pair* p) { p->counts["attention.value_length_swa"] = 8; }},
      {"gemma4.rope.dimension_count_swa must be 16",
       [](Gemma4Pair* p) { p->counts["rope.dimension_count_swa"] = 8; }},
      {"rope_freqs.weight", [](Gemma4Pair* p) { p->factors[2] = 2; }},
      {"rope_freqs.weight", [](Gemma4Pair* p) { p->factors.pop_back(); }},
      {"gemma4.attention.shared_kv_layers",
       [](Gemma4Pair* p) { p->counts["attention.shared_kv_layers"] = 4; }},
      {"gemma4.expert_shared_count",
       [](Gemma4Pair* p) {
         p->counts["expert_count"] = 3;
         p->counts["expert_used_count"] = 2;
         p->counts["expert_feed_forward_length"] = 8;
         p->counts["expert_shared_count"] = 1;
       }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.part);
    Gemma4Pair pair;
    one.change(&pair);
    const TempFolder temporary;
    pair.write(temporary / "m.gguf");
    expect_invalid({one.part},
                   [&] { (void)convert(temporary / "m.gguf", format::NumberFormat::kF32); });
  }
}

}  // namespace
}  // namespace cria::test
