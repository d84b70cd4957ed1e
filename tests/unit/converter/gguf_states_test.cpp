// GGUF files of Granite 4 -h, Qwen3-Next and Qwen3.5 become the files of their folders.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/converter/gguf_pair.h"

namespace cria::test {
namespace {

constexpr uint64_t kRows = 96;
constexpr uint64_t kExpertRows = 32;
constexpr uint64_t kHead = 16;
constexpr uint64_t kTaps = 4;
constexpr uint32_t kSigned = 5;  // the type of a list's numbers: int32
constexpr uint64_t kKeyHeads = 2;
constexpr uint64_t kValueHeads = 6;
constexpr uint64_t kWidthOfHead = 8;

std::vector<float> floats_of(const std::string& data) {
  std::vector<float> values(data.size() / sizeof(float));
  std::memcpy(values.data(), data.data(), data.size());
  return values;
}
std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// What the newest tensor becomes in the file.
void change_newest(Pair* pair, const std::vector<uint64_t>& shape,
                   const std::vector<float>& values) {
  pair->gguf.tensors.back().shape = shape;
  pair->gguf.tensors.back().data = bytes_of(values);
}
std::vector<float> newest(const Pair& pair) { return floats_of(pair.gguf.tensors.back().data); }

// Of the newest tensor, a file has -exp of its values.
void take_decays(Pair* pair, const std::vector<uint64_t>& shape) {
  std::vector<float> values = newest(*pair);
  for (float& value : values) {
    value = -static_cast<float>(std::exp(static_cast<double>(value)));
  }
  change_newest(pair, shape, values);
}

void add_one_to_newest(Pair* pair) {
  std::vector<float> values = newest(*pair);
  for (float& value : values) value += 1.0F;
  change_newest(pair, pair->gguf.tensors.back().shape, values);
}

// Of the newest tensor from a row on, heads of n rows: in the file the first of each key head come
// first, then the second.
void tile_rows(Pair* pair, uint64_t first, uint64_t n) {
  const std::vector<float> values = newest(*pair);
  const GgufTestTensor& tensor = pair->gguf.tensors.back();
  const uint64_t n_cols = values.size() / tensor.shape[0];
  std::vector<float> tiled(values.begin(), values.begin() + static_cast<ptrdiff_t>(first * n_cols));
  for (uint64_t i = 0; i < kValueHeads / kKeyHeads; ++i) {
    for (uint64_t key = 0; key < kKeyHeads; ++key) {
      const uint64_t head = key * (kValueHeads / kKeyHeads) + i;
      const auto begin = values.begin() + static_cast<ptrdiff_t>((first + head * n) * n_cols);
      tiled.insert(tiled.end(), begin, begin + static_cast<ptrdiff_t>(n * n_cols));
    }
  }
  change_newest(pair, tensor.shape, tiled);
}

void tile_columns(Pair* pair, uint64_t n) {
  const std::vector<float> values = newest(*pair);
  const GgufTestTensor& tensor = pair->gguf.tensors.back();
  const uint64_t n_cols = tensor.shape[1];
  std::vector<float> tiled;
  for (uint64_t row = 0; row < tensor.shape[0]; ++row) {
    for (uint64_t i = 0; i < kValueHeads / kKeyHeads; ++i) {
      for (uint64_t key = 0; key < kKeyHeads; ++key) {
        const uint64_t head = key * (kValueHeads / kKeyHeads) + i;
        const auto begin = values.begin() + static_cast<ptrdiff_t>(row * n_cols + head * n);
        tiled.insert(tiled.end(), begin, begin + static_cast<ptrdiff_t>(n));
      }
    }
  }
  change_newest(pair, tensor.shape, tiled);
}

// What a folder's convolution has a side of 1 for.
void put_taps(Pair* pair, const std::string& name, uint64_t n_channels) {
  pair->put(name, "ssm_conv1d.weight", {n_channels, kTaps});
  pair->folder.tensors.back().shape = {n_channels, 1, kTaps};
}

// Begins a model of three layers, of which the second attends.
Pair begun(const char* class_name, const char* model_type, const std::string& architecture) {
  Pair pair(class_name, model_type, architecture, kRows);
  pair.folder.tensors.clear();
  pair.folder.config["rms_norm_eps"] = "1e-5";
  pair.folder.config["num_key_value_heads"] = "2";
  pair.folder.config["tie_word_embeddings"] = "true";
  pair.gguf.put_text("general.architecture", architecture);
  pair.gguf.put_number(architecture + ".attention.layer_norm_rms_epsilon", 1e-5F);
  pair.gguf.put_count(architecture + ".vocab_size", kVocab);
  pair.count("block_count", "num_hidden_layers", 3);
  pair.count("embedding_length", "hidden_size", kWidth);
  pair.count("context_length", "max_position_embeddings", 128);
  pair.count("attention.head_count", "num_attention_heads", kWidth / kHead);
  pair.put_named("model.embed_tokens.weight", "token_embd.weight", {kVocab, kWidth});
  return pair;
}

struct Lie {
  const char* key = "";
  uint32_t value = 0;
};

// Granite 4 -h -----------------------------------------------------------------------------------

constexpr uint64_t kSpaceHeads = 8;
constexpr uint64_t kSpaceWidth = 16;  // of a head
constexpr uint64_t kStates = 12;
constexpr uint64_t kInner = kSpaceHeads * kSpaceWidth;
static_assert(kInner == 2 * kWidth);

void put_state_space(Pair* pair) {
  const uint64_t n_channels = kInner + 2 * kStates;
  pair->put("mamba.in_proj.weight", "ssm_in.weight", {kInner + n_channels + kSpaceHeads, kWidth});
  put_taps(pair, "mamba.conv1d.weight", n_channels);
  pair->put("mamba.conv1d.bias", "ssm_conv1d.bias", {n_channels});
  pair->put("mamba.A_log", "ssm_a", {kSpaceHeads});
  take_decays(pair, {kSpaceHeads, 1});
  pair->put("mamba.D", "ssm_d", {kSpaceHeads});
  pair->gguf.tensors.back().shape = {kSpaceHeads, 1};
  pair->put("mamba.dt_bias", "ssm_dt.bias", {kSpaceHeads});
  pair->put("mamba.norm.weight", "ssm_norm.weight", {kInner});
  pair->gguf.tensors.back().shape = {1, kInner};
  pair->put("mamba.out_proj.weight", "ssm_out.weight", {kWidth, kInner});
}

// Rows of gate and up that a folder has in one.
void put_both(Pair* pair, const std::string& name, const std::string& gate, const std::string& up,
              const std::vector<uint64_t>& shape) {
  std::vector<uint64_t> both = shape;
  both[both.size() - 2] *= 2;
  pair->put(name, gate, both);
  const std::string data = pair->gguf.tensors.back().data;
  const size_t n_each = shape[shape.size() - 2] * shape.back() * sizeof(float);
  std::string parts[2];
  for (size_t at = 0; at < data.size(); at += 2 * n_each) {
    for (size_t i = 0; i < 2; ++i) parts[i] += data.substr(at + i * n_each, n_each);
  }
  GgufTestTensor& first = pair->gguf.tensors.back();
  first.shape = shape;
  first.data = parts[0];
  const std::string block = first.name.substr(0, first.name.size() - gate.size());
  pair->gguf.tensors.push_back({block + up, shape, 0, parts[1]});
}

Pair granite(bool has_experts, const Lie& lie = {}, std::vector<int32_t> key_heads = {0, 2, 0}) {
  const std::string architecture = "granitehybrid";
  Pair pair = begun("GraniteMoeHybridForCausalLM", "granitemoehybrid", architecture);
  if (lie.value != 0) pair.gguf.replace_count(architecture + lie.key, lie.value);
  pair.folder.config["layer_types"] = R"(["mamba", "attention", "mamba"])";
  pair.folder.config["num_local_experts"] = has_experts ? std::to_string(kExperts) : "0";
  pair.folder.config["embedding_multiplier"] = "1.5";
  pair.gguf.put_number(architecture + ".embedding_scale", 1.5F);
  pair.folder.config["attention_multiplier"] = "0.25";
  pair.gguf.put_number(architecture + ".attention.scale", 0.25F);
  pair.gguf.put_numbers(architecture + ".attention.head_count_kv", kSigned, key_heads);
  pair.gguf.put_flag(architecture + ".rope.scaling.finetuned", false);
  pair.folder.config["mamba_expand"] = "2";
  pair.folder.config["mamba_d_head"] = std::to_string(kSpaceWidth);
  pair.gguf.put_count(architecture + ".ssm.inner_size", kInner);
  pair.count("ssm.conv_kernel", "mamba_d_conv", kTaps);
  pair.count("ssm.state_size", "mamba_d_state", kStates);
  pair.count("ssm.group_count", "mamba_n_groups", 1);
  pair.count("ssm.time_step_rank", "mamba_n_heads", kSpaceHeads);
  pair.count("expert_shared_feed_forward_length", "shared_intermediate_size", kRows);
  pair.count("feed_forward_length", "intermediate_size", has_experts ? kExpertRows : kRows);
  if (has_experts) {
    pair.gguf.put_count(architecture + ".expert_count", kExperts);
    pair.count("expert_used_count", "num_experts_per_tok", 2);
  }
  for (int i = 0; i < 3; ++i) {
    pair.number = i;
    pair.put("input_layernorm.weight", "attn_norm.weight", {kWidth});
    pair.put("post_attention_layernorm.weight", "ffn_norm.weight", {kWidth});
    if (i == 1) {
      for (const auto& [name, n_rows] :
           {std::pair("q", kWidth), std::pair("k", 2 * kHead), std::pair("v", 2 * kHead)}) {
        pair.put(std::string("self_attn.") + name + "_proj.weight",
                 std::string("attn_") + name + ".weight", {n_rows, kWidth});
        if (name[0] != 'v') {
          pair.gguf.tensors.back().data = GgufWriter::paired(pair.folder.tensors.back());
        }
      }
      pair.put("self_attn.o_proj.weight", "attn_output.weight", {kWidth, kWidth});
    } else {
      put_state_space(&pair);
    }
    const std::string shared = has_experts ? "_shexp.weight" : ".weight";
    put_both(&pair, "shared_mlp.input_linear.weight", "ffn_gate" + shared, "ffn_up" + shared,
             {kRows, kWidth});
    pair.put("shared_mlp.output_linear.weight", "ffn_down" + shared, {kWidth, kRows});
    if (!has_experts) continue;
    pair.put("block_sparse_moe.router.layer.weight", "ffn_gate_inp.weight", {kExperts, kWidth});
    put_both(&pair, "block_sparse_moe.input_linear.weight", "ffn_gate_exps.weight",
             "ffn_up_exps.weight", {kExperts, kExpertRows, kWidth});
    pair.put("block_sparse_moe.output_linear.weight", "ffn_down_exps.weight",
             {kExperts, kWidth, kExpertRows});
  }
  pair.put_named("model.norm.weight", "output_norm.weight", {kWidth});
  return pair;
}

TEST(GgufStates, OfGraniteAreThoseOfTheFolder) {
  granite(false).expect_same();
  granite(true).expect_same();
}

TEST(GgufStates, OfGraniteAreHeldToTheirKeys) {
  granite(false, {".ssm.conv_kernel", 9}).refuses({"granitehybrid.ssm.conv_kernel", "from 2 to 8"});
  granite(false, {".ssm.group_count", 2}).refuses({"granitehybrid.ssm.group_count"});
  granite(false, {".ssm.inner_size", 130}).refuses({"granitehybrid.ssm.inner_size", "a multiple"});
  granite(false, {".ssm.state_size", 14}).refuses({"ssm_in.weight", "has shape"});
  granite(false, {}, {0, 2, 1}).refuses({"granitehybrid.attention.head_count_kv"});
  granite(false, {}, {0, 2}).refuses({"granitehybrid.attention.head_count_kv", "2 layers"});
  Pair silent = granite(false);
  silent.gguf.put_count("granitehybrid.expert_count", kExperts);
  silent.refuses({"granitehybrid.expert_used_count is missing"});
}

// Qwen3-Next and Qwen3.5 -------------------------------------------------------------------------

enum class Qwen { kNext, k35, k35Moe };

void put_norm(Pair* pair, const std::string& name, const std::string& gguf_name, uint64_t n) {
  pair->put(name, gguf_name, {n});
  add_one_to_newest(pair);
}

// The key head's queries, keys, values and gates that Qwen3-Next's folders have together, by rows.
void put_fused(Pair* pair) {
  constexpr uint64_t kOfKey = kValueHeads / kKeyHeads;
  constexpr uint64_t kParts[] = {kWidthOfHead, kWidthOfHead, kOfKey * kWidthOfHead,
                                 kOfKey * kWidthOfHead};
  constexpr uint64_t kAll = 2 * kWidthOfHead + 2 * kOfKey * kWidthOfHead;
  pair->put("linear_attn.in_proj_qkvz.weight", "attn_qkv.weight", {kKeyHeads * kAll, kWidth});
  const std::vector<float> values = newest(*pair);
  std::vector<float> parts[4];
  for (uint64_t key = 0; key < kKeyHeads; ++key) {
    uint64_t row = key * kAll;
    for (size_t i = 0; i < 4; row += kParts[i++]) {
      const auto begin = values.begin() + static_cast<ptrdiff_t>(row * kWidth);
      parts[i].insert(parts[i].end(), begin, begin + static_cast<ptrdiff_t>(kParts[i] * kWidth));
    }
  }
  std::vector<float> all = parts[0];
  for (size_t i = 1; i < 3; ++i) all.insert(all.end(), parts[i].begin(), parts[i].end());
  change_newest(pair, {all.size() / kWidth, kWidth}, all);
  const std::string name = pair->gguf.tensors.back().name;
  pair->gguf.tensors.push_back(
      {name.substr(0, name.size() - std::strlen("attn_qkv.weight")) + "attn_gate.weight",
       {kValueHeads * kWidthOfHead, kWidth},
       0,
       bytes_of(parts[3])});
}

void put_delta_rule(Qwen which, Pair* pair) {
  const bool is_tiled = which != Qwen::kNext;
  constexpr uint64_t kOthers = 2 * kKeyHeads * kWidthOfHead;
  constexpr uint64_t kValues = kValueHeads * kWidthOfHead;
  const std::string front = "linear_attn.";
  if (which == Qwen::kNext) {
    put_fused(pair);
    pair->put(front + "in_proj_ba.weight", "ssm_ba.weight", {2 * kValueHeads, kWidth});
  } else {
    pair->put(front + "in_proj_qkv.weight", "attn_qkv.weight", {kOthers + kValues, kWidth});
    tile_rows(pair, kOthers, kWidthOfHead);
    pair->put(front + "in_proj_z.weight", "attn_gate.weight", {kValues, kWidth});
    tile_rows(pair, 0, kWidthOfHead);
    pair->put(front + "in_proj_a.weight", "ssm_alpha.weight", {kValueHeads, kWidth});
    tile_rows(pair, 0, 1);
    pair->put(front + "in_proj_b.weight", "ssm_beta.weight", {kValueHeads, kWidth});
    tile_rows(pair, 0, 1);
  }
  put_taps(pair, front + "conv1d.weight", kOthers + kValues);
  if (is_tiled) tile_rows(pair, kOthers, kWidthOfHead);
  pair->put(front + "A_log", "ssm_a", {kValueHeads});
  if (is_tiled) tile_rows(pair, 0, 1);
  take_decays(pair, {kValueHeads});
  pair->put(front + "dt_bias", "ssm_dt.bias", {kValueHeads});
  if (is_tiled) tile_rows(pair, 0, 1);
  pair->put(front + "norm.weight", "ssm_norm.weight", {kWidthOfHead});
  pair->put(front + "out_proj.weight", "ssm_out.weight", {kWidth, kValues});
  if (is_tiled) tile_columns(pair, kWidthOfHead);
}

Pair qwen(Qwen which, const Lie& lie = {}) {
  const char* const kClasses[] = {"Qwen3NextForCausalLM", "Qwen3_5ForCausalLM",
                                  "Qwen3_5MoeForCausalLM"};
  const char* const kTypes[] = {"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"};
  const char* const kNames[] = {"qwen3next", "qwen35", "qwen35moe"};
  const auto i_which = static_cast<size_t>(which);
  const std::string architecture = kNames[i_which];
  const bool has_experts = which != Qwen::k35;
  Pair pair = begun(kClasses[i_which], kTypes[i_which], architecture);
  if (lie.value != 0) pair.gguf.replace_count(architecture + lie.key, lie.value);
  pair.count("attention.head_count_kv", "num_key_value_heads", 2);
  pair.count("attention.key_length", "head_dim", kHead);
  pair.gguf.put_count(architecture + ".attention.value_length", kHead);
  pair.gguf.put_count(architecture + ".rope.dimension_count", kHead / 4);
  pair.folder.config["rope_theta"] = "1e6";
  pair.gguf.put_number(architecture + ".rope.freq_base", 1e6F);
  if (which != Qwen::kNext) {
    pair.gguf.put_numbers(architecture + ".rope.dimension_sections", kSigned,
                          std::vector<int32_t>{2, 1, 1, 0});
  }
  if (which == Qwen::k35Moe) {  // the newest files say it twice
    const std::string layers = {1, 0, 1};
    pair.gguf.put_list(architecture + ".attention.recurrent_layers", 7, layers.size(), layers);
    pair.folder.config["layer_types"] =
        R"(["linear_attention", "full_attention", "linear_attention"])";
  } else {
    pair.count("full_attention_interval", "full_attention_interval", 2);
  }
  pair.count("ssm.conv_kernel", "linear_conv_kernel_dim", kTaps);
  pair.count("ssm.state_size", "linear_key_head_dim", kWidthOfHead);
  pair.count("ssm.group_count", "linear_num_key_heads", kKeyHeads);
  pair.count("ssm.time_step_rank", "linear_num_value_heads", kValueHeads);
  pair.folder.config["linear_value_head_dim"] = std::to_string(kWidthOfHead);
  pair.gguf.put_count(architecture + ".ssm.inner_size", kValueHeads * kWidthOfHead);
  if (which == Qwen::k35Moe) {
    pair.folder.config.erase("intermediate_size");
  } else {
    pair.count("feed_forward_length", "intermediate_size", kRows);
  }
  if (has_experts) {
    pair.count("expert_count", "num_experts", kExperts);
    pair.count("expert_used_count", "num_experts_per_tok", 2);
    pair.count("expert_feed_forward_length", "moe_intermediate_size", kExpertRows);
    pair.count("expert_shared_feed_forward_length", "shared_expert_intermediate_size", kRows);
    pair.folder.config["norm_topk_prob"] = "true";
  }
  for (int i = 0; i < 3; ++i) {
    pair.number = i;
    put_norm(&pair, "input_layernorm.weight", "attn_norm.weight", kWidth);
    put_norm(&pair, "post_attention_layernorm.weight", "post_attention_norm.weight", kWidth);
    if (i == 1) {
      pair.put("self_attn.q_proj.weight", "attn_q.weight", {2 * kWidth, kWidth});
      pair.put("self_attn.k_proj.weight", "attn_k.weight", {2 * kHead, kWidth});
      pair.put("self_attn.v_proj.weight", "attn_v.weight", {2 * kHead, kWidth});
      pair.put("self_attn.o_proj.weight", "attn_output.weight", {kWidth, kWidth});
      put_norm(&pair, "self_attn.q_norm.weight", "attn_q_norm.weight", kHead);
      put_norm(&pair, "self_attn.k_norm.weight", "attn_k_norm.weight", kHead);
    } else {
      put_delta_rule(which, &pair);
    }
    const std::string own = has_experts ? "mlp.shared_expert." : "mlp.";
    const std::string shared = has_experts ? "_shexp.weight" : ".weight";
    pair.put(own + "gate_proj.weight", "ffn_gate" + shared, {kRows, kWidth});
    pair.put(own + "up_proj.weight", "ffn_up" + shared, {kRows, kWidth});
    pair.put(own + "down_proj.weight", "ffn_down" + shared, {kWidth, kRows});
    if (!has_experts) continue;
    pair.put("mlp.gate.weight", "ffn_gate_inp.weight", {kExperts, kWidth});
    pair.put("mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", {kWidth});
    pair.folder.tensors.back().shape = {1, kWidth};
    if (which == Qwen::k35Moe) {
      put_both(&pair, "mlp.experts.gate_up_proj", "ffn_gate_exps.weight", "ffn_up_exps.weight",
               {kExperts, kExpertRows, kWidth});
      pair.put("mlp.experts.down_proj", "ffn_down_exps.weight", {kExperts, kWidth, kExpertRows});
    } else {
      const std::string front = "mlp.experts.";
      pair.put_stack(front, ".gate_proj.weight", "ffn_gate_exps.weight", {kExpertRows, kWidth});
      pair.put_stack(front, ".up_proj.weight", "ffn_up_exps.weight", {kExpertRows, kWidth});
      pair.put_stack(front, ".down_proj.weight", "ffn_down_exps.weight", {kWidth, kExpertRows});
    }
  }
  pair.put_named("model.norm.weight", "output_norm.weight", {kWidth});
  add_one_to_newest(&pair);
  return pair;
}

TEST(GgufStates, OfQwensAreThoseOfTheFolder) {
  for (const Qwen which : {Qwen::kNext, Qwen::k35, Qwen::k35Moe}) {
    SCOPED_TRACE(static_cast<int>(which));
    qwen(which).expect_same();
  }
}

TEST(GgufStates, OfQwensAreHeldToTheirKeys) {
  qwen(Qwen::k35, {".ssm.inner_size", 49}).refuses({"qwen35.ssm.inner_size", "a multiple"});
  qwen(Qwen::k35, {".ssm.group_count", 4}).refuses({"qwen35.ssm.group_count", "must divide"});
  qwen(Qwen::kNext, {".ssm.state_size", 10}).refuses({"attn_qkv.weight", "has shape"});
  Pair with_more = qwen(Qwen::k35);
  with_more.gguf.put_count("qwen35.nextn_predict_layers", 1);
  with_more.refuses({"qwen35.nextn_predict_layers", "is not supported"});
}

}  // namespace
}  // namespace cria::test
