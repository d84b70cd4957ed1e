// GGUF files of LFM2, with experts and without, become the files of their folders.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/converter/gguf_pair.h"

namespace cria::test {
namespace {

constexpr uint64_t kRows = 96;
constexpr uint64_t kExpertRows = 32;
constexpr uint64_t kHead = 16;
constexpr uint32_t kTaps = 3;
constexpr uint32_t kSigned = 5;  // the type of a list's numbers: int32

// A convolution, whose weights lie in the folder with a side of 1.
void put_convolution(Pair* pair) {
  pair->put("conv.in_proj.weight", "shortconv.in_proj.weight", {3 * kWidth, kWidth});
  pair->put("conv.out_proj.weight", "shortconv.out_proj.weight", {kWidth, kWidth});
  pair->put("conv.conv.weight", "shortconv.conv.weight", {kWidth, kTaps});
  pair->folder.tensors.back().shape = {kWidth, 1, kTaps};
}

void put_attention(Pair* pair) {
  const std::pair<const char*, uint64_t> heads[] = {
      {"q", kWidth}, {"k", 2 * kHead}, {"v", 2 * kHead}};
  for (const auto& [name, n_rows] : heads) {
    pair->put(std::string("self_attn.") + name + "_proj.weight",
              std::string("attn_") + name + ".weight", {n_rows, kWidth});
  }
  pair->put("self_attn.out_proj.weight", "attn_output.weight", {kWidth, kWidth});
  pair->put("self_attn.q_layernorm.weight", "attn_q_norm.weight", {kHead});
  pair->put("self_attn.k_layernorm.weight", "attn_k_norm.weight", {kHead});
}

void put_mlp(bool has_experts, Pair* pair) {
  if (!has_experts) {
    pair->put("feed_forward.w1.weight", "ffn_gate.weight", {kRows, kWidth});
    pair->put("feed_forward.w3.weight", "ffn_up.weight", {kRows, kWidth});
    pair->put("feed_forward.w2.weight", "ffn_down.weight", {kWidth, kRows});
    return;
  }
  pair->put("feed_forward.gate.weight", "ffn_gate_inp.weight", {kExperts, kWidth});
  pair->put("feed_forward.expert_bias", "exp_probs_b.bias", {kExperts});
  const std::string front = "feed_forward.experts.";
  pair->put_stack(front, ".w1.weight", "ffn_gate_exps.weight", {kExpertRows, kWidth});
  pair->put_stack(front, ".w3.weight", "ffn_up_exps.weight", {kExpertRows, kWidth});
  pair->put_stack(front, ".w2.weight", "ffn_down_exps.weight", {kWidth, kExpertRows});
}

// What a file says in place of what the folder says.
struct Lie {
  const char* key = "";
  uint32_t value = 0;
  std::vector<int32_t> key_heads = {0, 2, 0};
};

// Layers: convolution, attention, convolution; with experts in all but the first.
Pair lfm2(bool has_experts, const Lie& lie = {}) {
  const std::string architecture = has_experts ? "lfm2moe" : "lfm2";
  Pair pair(has_experts ? "Lfm2MoeForCausalLM" : "Lfm2ForCausalLM",
            has_experts ? "lfm2_moe" : "lfm2", architecture, kRows);
  pair.folder.tensors.clear();
  pair.folder.config["layer_types"] = R"(["conv", "full_attention", "conv"])";
  pair.folder.config["rms_norm_eps"] = "1e-5";
  pair.folder.config["rope_theta"] = "1e6";
  pair.folder.config["num_key_value_heads"] = "2";
  pair.folder.config["block_auto_adjust_ff_dim"] = "false";
  pair.folder.config["tie_word_embeddings"] = "true";
  pair.gguf.put_text("general.architecture", architecture);
  pair.gguf.put_number(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F);
  pair.gguf.put_number(architecture + ".rope.freq_base", 1e6F);
  pair.gguf.put_numbers(architecture + ".attention.head_count_kv", kSigned, lie.key_heads);
  if (lie.value != 0) pair.gguf.replace_count(architecture + lie.key, lie.value);
  pair.gguf.put_count(architecture + ".vocab_size", kVocab);
  pair.count("block_count", "num_hidden_layers", 3);
  pair.count("embedding_length", "hidden_size", kWidth);
  pair.count("feed_forward_length", "intermediate_size", kRows);
  pair.count("context_length", "max_position_embeddings", 128);
  pair.count("attention.head_count", "num_attention_heads", kWidth / kHead);
  pair.count("shortconv.l_cache", "conv_L_cache", kTaps);
  if (has_experts) {
    pair.count("expert_count", "num_experts", kExperts);
    pair.count("expert_used_count", "num_experts_per_tok", 2);
    pair.count("expert_feed_forward_length", "moe_intermediate_size", kExpertRows);
    pair.count("leading_dense_block_count", "num_dense_layers", 1);
    pair.gguf.put_count(architecture + ".expert_gating_func", 2);
  }
  pair.put_named("model.embed_tokens.weight", "token_embd.weight", {kVocab, kWidth});
  pair.put_named("model.embedding_norm.weight", "token_embd_norm.weight", {kWidth});
  for (int i = 0; i < 3; ++i) {
    pair.number = i;
    pair.put("operator_norm.weight", "attn_norm.weight", {kWidth});
    pair.put("ffn_norm.weight", "ffn_norm.weight", {kWidth});
    if (i == 1) {
      put_attention(&pair);
    } else {
      put_convolution(&pair);
    }
    put_mlp(has_experts && i > 0, &pair);
  }
  return pair;
}

TEST(GgufConvolutions, AreThoseOfTheFolder) {
  lfm2(false).expect_same();
  lfm2(true).expect_same();
}

TEST(GgufConvolutions, AreHeldToTheirKeys) {
  lfm2(true, {".expert_gating_func", 1}).refuses({"lfm2moe.expert_gating_func", "only sigmoid"});
  lfm2(false, {".shortconv.l_cache", 9}).refuses({"lfm2.shortconv.l_cache", "from 2 to 8"});
  lfm2(false, {".shortconv.l_cache", 4}).refuses({"blk.0.shortconv.conv.weight", "has shape"});
  lfm2(false, {"", 0, {0, 2, 1}}).refuses({"lfm2.attention.head_count_kv", "one number or 0"});
  lfm2(false, {"", 0, {0, 2}}).refuses({"lfm2.attention.head_count_kv", "2 layers"});
  lfm2(false, {"", 0, {}}).refuses({"lfm2.attention.head_count_kv"});
}

}  // namespace
}  // namespace cria::test
