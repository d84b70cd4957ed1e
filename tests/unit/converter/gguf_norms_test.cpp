// GGUF files of families with norms after their blocks or around them become the files of their
// folders; keys of one family are refused in another.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/unit/converter/gguf_pair.h"

namespace cria::test {
namespace {

constexpr uint32_t kHeads = 2;
constexpr uint32_t kHead = 32;
constexpr uint32_t kRows = 96;
constexpr uint32_t kWindow = 16;

// What llama.cpp's converter does to the norms of a Gemma.
void add_one(GgufTestTensor* tensor) {
  for (size_t at = 0; at < tensor->data.size(); at += sizeof(float)) {
    float value = 0;
    std::memcpy(&value, &tensor->data[at], sizeof value);
    value += 1;
    std::memcpy(&tensor->data[at], &value, sizeof value);
  }
}

void put_layer(bool has_norms_before, uint64_t head_norm, Pair* pair) {
  const uint64_t width = uint64_t{kHeads} * kHead;
  for (const char* const name : {"q", "k", "v"}) {
    pair->put(std::string("self_attn.") + name + "_proj.weight",
              std::string("attn_") + name + ".weight", {width, kWidth});
  }
  pair->put("self_attn.o_proj.weight", "attn_output.weight", {kWidth, width});
  if (head_norm != 0) {
    pair->put("self_attn.q_norm.weight", "attn_q_norm.weight", {head_norm});
    pair->put("self_attn.k_norm.weight", "attn_k_norm.weight", {head_norm});
  }
  pair->put("post_attention_layernorm.weight", "post_attention_norm.weight", {kWidth});
  pair->put("post_feedforward_layernorm.weight", "post_ffw_norm.weight", {kWidth});
  if (has_norms_before) {
    pair->put("input_layernorm.weight", "attn_norm.weight", {kWidth});
    pair->put("pre_feedforward_layernorm.weight", "ffn_norm.weight", {kWidth});
  }
  pair->put("mlp.gate_proj.weight", "ffn_gate.weight", {kRows, kWidth});
  pair->put("mlp.up_proj.weight", "ffn_up.weight", {kRows, kWidth});
  pair->put("mlp.down_proj.weight", "ffn_down.weight", {kWidth, kRows});
}

Pair family(const char* class_name, const char* model_type, const std::string& architecture,
            uint32_t n_layers, bool has_norms_before, uint64_t head_norm) {
  Pair pair(class_name, model_type, architecture, kRows);
  pair.folder.tensors.clear();
  pair.gguf.put_text("general.architecture", architecture);
  pair.gguf.put_number(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F);
  pair.folder.config["rms_norm_eps"] = "1e-5";
  pair.gguf.put_count(architecture + ".vocab_size", kVocab);
  pair.count("block_count", "num_hidden_layers", n_layers);
  pair.count("embedding_length", "hidden_size", kWidth);
  pair.count("feed_forward_length", "intermediate_size", kRows);
  pair.count("context_length", "max_position_embeddings", 128);
  pair.count("attention.head_count", "num_attention_heads", kHeads);
  pair.count("attention.head_count_kv", "num_key_value_heads", kHeads);
  pair.count("attention.key_length", "head_dim", kHead);
  pair.gguf.put_count(architecture + ".attention.value_length", kHead);
  pair.put_named("model.embed_tokens.weight", "token_embd.weight", {kVocab, kWidth});
  pair.put_named("model.norm.weight", "output_norm.weight", {kWidth});
  pair.put_named("lm_head.weight", "output.weight", {kVocab, kWidth});
  pair.folder.config["tie_word_embeddings"] = "false";
  for (uint32_t i = 0; i < n_layers; ++i) {
    pair.number = static_cast<int>(i);
    put_layer(has_norms_before, head_norm, &pair);
  }
  return pair;
}

Pair gemma(const char* class_name, const char* model_type, const char* architecture,
           uint32_t n_layers, uint64_t head_norm) {
  Pair pair = family(class_name, model_type, architecture, n_layers, true, head_norm);
  for (GgufTestTensor& tensor : pair.gguf.tensors) {
    if (tensor.name.ends_with("norm.weight")) add_one(&tensor);
  }
  pair.folder.config["query_pre_attn_scalar"] = std::to_string(kHead);
  return pair;
}

// Neither says a window or a cap.
Pair gemma2() { return gemma("Gemma2ForCausalLM", "gemma2", "gemma2", 2, 0); }

Pair gemma3() {
  Pair pair = gemma("Gemma3ForCausalLM", "gemma3_text", "gemma3", 7, kHead);
  pair.count("attention.sliding_window", "sliding_window", kWindow);
  pair.gguf.put_number("gemma3.rope.freq_base", 1e6F);
  pair.folder.config["rope_theta"] = "1e6";
  return pair;
}

Pair olmo3() {
  Pair pair = family("Olmo3ForCausalLM", "olmo3", "olmo2", 4, false, uint64_t{kHeads} * kHead);
  pair.count("attention.sliding_window", "sliding_window", kWindow);
  pair.gguf.put_number("olmo2.rope.freq_base", 1e4F);
  pair.folder.config["rope_theta"] = "1e4";
  return pair;
}

TEST(GgufNorms, AGemma2sSilenceMeansWhatItsClassHas) {
  gemma2().expect_same();
  Pair said = gemma2();
  said.gguf.put_number("gemma2.attn_logit_softcapping", 50);
  said.gguf.put_number("gemma2.final_logit_softcapping", 30);
  said.gguf.put_count("gemma2.attention.sliding_window", 4096);
  said.expect_same();
  Pair without = gemma2();
  without.gguf.put_count("gemma2.attention.sliding_window", 0);
  without.folder.config["sliding_window"] = "null";
  without.expect_same();
}

TEST(GgufNorms, AGemma3IsItsFolder) {
  gemma3().expect_same();
  Pair newer = gemma3();
  newer.gguf.put_number("gemma3.rope.freq_base_swa", 5e3F);
  newer.folder.config["rope_local_base_freq"] = "5e3";
  newer.gguf.put_number("gemma3.final_logit_softcapping", 30);
  newer.folder.config["final_logit_softcapping"] = "30.0";
  newer.count("attention.sliding_window_pattern", "sliding_window_pattern", 3);
  newer.expect_same();
}

TEST(GgufNorms, AnOlmoWithWindowsIsAnOlmo3) {
  olmo3().expect_same();
  Pair listed = olmo3();
  listed.gguf.put_list("olmo2.attention.sliding_window_pattern", 7, 4,
                       std::string("\x01\x00\x00\x01", 4));
  listed.folder.config["layer_types"] =
      R"(["sliding_attention", "full_attention", "full_attention", "sliding_attention"])";
  listed.expect_same();
}

TEST(GgufNorms, KeysOfOthersAreRefused) {
  for (const char* const key :
       {"attn_logit_softcapping", "final_logit_softcapping", "attention.temperature_scale"}) {
    Pair pair = olmo3();
    pair.gguf.put_number(std::string("olmo2.") + key, 4);
    pair.refuses({std::string("olmo2.") + key, "is not supported for this architecture"});
  }
  Pair short_list = olmo3();
  short_list.gguf.put_list("olmo2.attention.sliding_window_pattern", 7, 3, std::string(3, '\1'));
  short_list.refuses({"olmo2.attention.sliding_window_pattern", "names 3 layers"});
  Pair numbers = olmo3();
  numbers.gguf.put_numbers<uint32_t>("olmo2.attention.sliding_window_pattern", 4, {1, 1, 0, 1});
  numbers.refuses({"olmo2.attention.sliding_window_pattern", "true or false"});
}

}  // namespace
}  // namespace cria::test
