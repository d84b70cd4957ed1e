// GGUF files of models with experts, whose stacks are one tensor each, and of GPT-2 become the
// files of the folders that they were made of; what does not fit is refused by their own names.
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/converter/gguf_pair.h"

namespace cria::test {
namespace {

using format::NumberFormat;
using format::TensorRole;

constexpr uint64_t kRows = 40;  // of an expert: no multiple of a tile's
constexpr uint32_t kQ4_0 = 2;

Pair mixtral(bool is_chosen = true) {
  Pair pair("MixtralForCausalLM", "mixtral", "llama", kRows);
  pair.begin(true);
  pair.folder.config["num_local_experts"] = std::to_string(kExperts);
  pair.folder.config["rms_norm_eps"] = "1e-6";
  pair.folder.config["rope_theta"] = "10000";
  pair.gguf.put_number("llama.rope.freq_base", 10000);
  if (is_chosen) pair.count("expert_used_count", "num_experts_per_tok", 2);
  const std::string block = "block_sparse_moe.";
  pair.put(block + "gate.weight", "ffn_gate_inp.weight", {kExperts, kWidth});
  pair.put_stack(block + "experts.", ".w1.weight", "ffn_gate_exps.weight", {kRows, kWidth});
  pair.put_stack(block + "experts.", ".w3.weight", "ffn_up_exps.weight", {kRows, kWidth});
  pair.put_stack(block + "experts.", ".w2.weight", "ffn_down_exps.weight", {kWidth, kRows});
  return pair;
}

Pair qwen2_moe(bool has_widths = true) {
  constexpr uint64_t kShared = 80;
  Pair pair("Qwen2MoeForCausalLM", "qwen2_moe", "qwen2moe", kRows);
  pair.gguf.replace_count("qwen2moe.feed_forward_length", kShared);
  pair.begin(false);
  pair.folder.config["num_experts"] = std::to_string(kExperts);
  pair.folder.config["intermediate_size"] = std::to_string(kShared);
  pair.count("expert_used_count", "num_experts_per_tok", 2);
  if (has_widths) {
    pair.count("expert_feed_forward_length", "moe_intermediate_size", kRows);
    pair.count("expert_shared_feed_forward_length", "shared_expert_intermediate_size", kShared);
  } else {
    pair.folder.config["moe_intermediate_size"] = std::to_string(kRows);
    pair.folder.config["shared_expert_intermediate_size"] = std::to_string(kShared);
  }
  for (const auto& [name, rows] : {std::pair("q", 64), std::pair("k", 32), std::pair("v", 32)}) {
    pair.put("self_attn." + std::string(name) + "_proj.bias", "attn_" + std::string(name) + ".bias",
             {static_cast<uint64_t>(rows)});
  }
  pair.gguf.put_count("qwen2moe.attention.key_length", 16);
  pair.put("mlp.gate.weight", "ffn_gate_inp.weight", {kExperts, kWidth});
  pair.put_stack("mlp.experts.", ".gate_proj.weight", "ffn_gate_exps.weight", {kRows, kWidth});
  pair.put_stack("mlp.experts.", ".up_proj.weight", "ffn_up_exps.weight", {kRows, kWidth});
  pair.put_stack("mlp.experts.", ".down_proj.weight", "ffn_down_exps.weight", {kWidth, kRows});
  const std::string shared = "mlp.shared_expert.";
  pair.put(shared + "gate_proj.weight", "ffn_gate_shexp.weight", {kShared, kWidth});
  pair.put(shared + "up_proj.weight", "ffn_up_shexp.weight", {kShared, kWidth});
  pair.put(shared + "down_proj.weight", "ffn_down_shexp.weight", {kWidth, kShared});
  pair.put("mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", {1, kWidth});
  return pair;
}

TEST(GgufExperts, AMixtralIsALlamaWithExperts) { mixtral().expect_same(); }

TEST(GgufExperts, OlderFilesHaveEachExpertApart) {
  Pair pair = mixtral();
  for (const std::string stem : {"blk.0.ffn_gate", "blk.0.ffn_up", "blk.0.ffn_down"}) {
    const GgufTestTensor stack = pair.tensor(stem + "_exps.weight");
    std::erase_if(pair.gguf.tensors, [&](const auto& t) { return t.name == stack.name; });
    const size_t n_bytes = stack.data.size() / kExperts;
    for (size_t i = 0; i < kExperts; ++i) {
      pair.gguf.tensors.push_back({stem + "." + std::to_string(i) + ".weight",
                                   {stack.shape[1], stack.shape[2]},
                                   0,
                                   stack.data.substr(i * n_bytes, n_bytes)});
    }
  }
  pair.expect_same();
  pair.tensor("blk.0.ffn_up.1.weight").name = "blk.0.ffn_up.3.weight";
  pair.refuses({"blk.0.ffn_up_exps.weight"});
  pair.tensor("blk.0.ffn_up.3.weight").name = "blk.0.ffn_up.x.weight";
  pair.refuses({"blk.0.ffn_up_exps.weight"});
}

TEST(GgufExperts, SharedExpertsAndTheirGateAreThoseOfTheFolder) {
  Pair pair = qwen2_moe();
  pair.expect_same();
  // A file may have the gate as a vector.
  pair.tensor("blk.0.ffn_gate_inp_shexp.weight").shape = {kWidth};
  pair.expect_same();
}

TEST(GgufExperts, OlderFilesGiveTheWidthOfAllChosenTogether) { qwen2_moe(false).expect_same(); }

TEST(GgufExperts, OfGraniteTheFolderHasGateAndUpInOne) {
  Pair pair("GraniteMoeForCausalLM", "granitemoe", "granitemoe", kRows);
  pair.begin(true);
  pair.folder.config["num_local_experts"] = std::to_string(kExperts);
  pair.count("expert_used_count", "num_experts_per_tok", 2);
  pair.gguf.put_number("granitemoe.attention.scale", 0.5f);
  pair.folder.config["attention_multiplier"] = "0.5";
  const std::string block = "block_sparse_moe.";
  pair.put(block + "router.layer.weight", "ffn_gate_inp.weight", {kExperts, kWidth});
  pair.put(block + "output_linear.weight", "ffn_down_exps.weight", {kExperts, kWidth, kRows});
  TestTensor both = random_tensor(kLayer + block + "input_linear.weight",
                                  {kExperts, 2 * kRows, kWidth}, &pair.rng);
  GgufTestTensor gate = {"blk.0.ffn_gate_exps.weight", {kExperts, kRows, kWidth}, 0, ""};
  GgufTestTensor up = {"blk.0.ffn_up_exps.weight", {kExperts, kRows, kWidth}, 0, ""};
  constexpr size_t kBytes = kRows * kWidth * sizeof(float);
  for (size_t i = 0; i < kExperts; ++i) {
    gate.data += both.data.substr(2 * i * kBytes, kBytes);
    up.data += both.data.substr((2 * i + 1) * kBytes, kBytes);
  }
  pair.folder.tensors.push_back(std::move(both));
  pair.gguf.tensors.push_back(std::move(gate));
  pair.gguf.tensors.push_back(std::move(up));
  pair.expect_same();
  // llama.cpp turns no positions then.
  pair.gguf.put_flag("granitemoe.rope.scaling.finetuned", false);
  pair.folder.config["position_embedding_type"] = R"("nope")";
  pair.expect_same();
}

// Blocks of a stack are read where each matrix begins: codes and scales of Q4_0 are kept.
TEST(GgufExperts, AStackOfBlocksIsItsMatrices) {
  Pair pair = mixtral();
  GgufTestTensor& stack = pair.tensor("blk.0.ffn_up_exps.weight");
  constexpr size_t kBlockBytes = 18;
  constexpr size_t kMatrixBytes = kRows * kWidth / 32 * kBlockBytes;
  stack.type = kQ4_0;
  stack.data.assign(kExperts * kMatrixBytes, '\0');
  for (size_t i = 0; i < stack.data.size(); ++i) {
    const bool is_scale = i % kBlockBytes < 2;
    stack.data[i] = is_scale ? (i % kBlockBytes == 0 ? static_cast<char>(i) : '\x2c')
                             : static_cast<char>(pair.rng());
  }
  const TempFolder folder;
  write_file(folder / "m.gguf", pair.gguf.bytes());
  const ModelReadBack all = convert(folder / "m.gguf", NumberFormat::kInt4);
  const format::TensorEntry& entry = all.tensor(TensorRole::kExpertUp, 0);
  std::string codes;
  std::string scales;
  for (size_t i = 0; i < kExperts; ++i) {
    GgufWriter one;
    one.replace_count("llama.feed_forward_length", kRows);
    one.put_tiny_llama();
    one.put_tensors(TinyCheckpoint(kWidth, kRows, 50));
    for (GgufTestTensor& t : one.tensors) {
      if (t.name != "blk.0.ffn_up.weight") continue;
      t.type = kQ4_0;
      t.data = stack.data.substr(i * kMatrixBytes, kMatrixBytes);
    }
    write_file(folder / "one.gguf", one.bytes());
    const ModelReadBack matrix = convert(folder / "one.gguf", NumberFormat::kInt4);
    const std::string raw = matrix.raw(matrix.tensor(TensorRole::kUp, 0));
    const size_t n_codes = (kRows + 15) / 16 * 16 * kWidth / 2;
    codes += raw.substr(0, n_codes);
    scales += raw.substr(n_codes);
  }
  EXPECT_TRUE(all.raw(entry) == codes + scales);
}

TEST(GgufExperts, OfGpt2MatricesLieByRows) {
  Pair pair("GPT2LMHeadModel", "gpt2", "gpt2", kRows);
  constexpr uint64_t kFfn = 96;
  constexpr uint64_t kPositions = 128;
  pair.folder.config = {{"architectures", R"(["GPT2LMHeadModel"])"},
                        {"model_type", R"("gpt2")"},
                        {"n_embd", std::to_string(kWidth)},
                        {"n_inner", std::to_string(kFfn)},
                        {"n_head", "4"},
                        {"n_layer", "2"},
                        {"vocab_size", "50"},
                        {"n_positions", std::to_string(kPositions)},
                        {"eos_token_id", "null"},
                        {"bos_token_id", "null"}};
  pair.folder.tensors.clear();
  pair.gguf.put_text("general.architecture", "gpt2");
  const std::pair<const char*, uint32_t> counts[] = {
      {"block_count", 2}, {"embedding_length", kWidth}, {"feed_forward_length", kFfn},
      {"vocab_size", 50}, {"attention.head_count", 4},  {"context_length", kPositions}};
  for (const auto& [key, value] : counts) pair.gguf.put_count("gpt2." + std::string(key), value);
  pair.gguf.put_number("gpt2.attention.layer_norm_epsilon", 1e-5f);
  const auto put = [&](const std::string& name, const std::string& gguf_name,
                       const std::vector<uint64_t>& shape) {
    pair.folder.tensors.push_back(random_tensor("transformer." + name, shape, &pair.rng));
    pair.gguf.tensors.push_back({gguf_name, shape, 0, pair.folder.tensors.back().data});
  };
  // [in][out] in the folder, [out][in] in the file.
  const auto put_turned = [&](const std::string& name, const std::string& gguf_name, uint64_t rows,
                              uint64_t cols) {
    put(name + ".bias", gguf_name + ".bias", {rows});
    put(name + ".weight", gguf_name + ".weight", {cols, rows});
    GgufTestTensor& turned = pair.gguf.tensors.back();
    const std::string stored = turned.data;
    turned.shape = {rows, cols};
    turned.data.clear();
    for (uint64_t row = 0; row < rows; ++row) {
      for (uint64_t col = 0; col < cols; ++col) {
        turned.data += stored.substr((col * rows + row) * sizeof(float), sizeof(float));
      }
    }
  };
  put("wte.weight", "token_embd.weight", {50, kWidth});
  put("wpe.weight", "position_embd.weight", {kPositions, kWidth});
  put("ln_f.weight", "output_norm.weight", {kWidth});
  put("ln_f.bias", "output_norm.bias", {kWidth});
  for (const std::string layer : {"0.", "1."}) {
    const std::string h = "h." + layer;
    const std::string blk = "blk." + layer;
    for (const auto& [name, gguf_name] :
         {std::pair("ln_1", "attn_norm"), std::pair("ln_2", "ffn_norm")}) {
      put(h + name + ".weight", blk + gguf_name + ".weight", {kWidth});
      put(h + name + ".bias", blk + gguf_name + ".bias", {kWidth});
    }
    put_turned(h + "attn.c_attn", blk + "attn_qkv", 3 * kWidth, kWidth);
    put_turned(h + "attn.c_proj", blk + "attn_output", kWidth, kWidth);
    put_turned(h + "mlp.c_fc", blk + "ffn_up", kFfn, kWidth);
    put_turned(h + "mlp.c_proj", blk + "ffn_down", kWidth, kFfn);
  }
  pair.expect_same();

  const std::vector<GgufTestTensor> all = pair.gguf.tensors;
  for (const char* matrix : {"attn_qkv", "attn_output", "ffn_up", "ffn_down"}) {
    const std::string bias = "blk.0." + std::string(matrix) + ".bias";
    std::erase_if(pair.gguf.tensors, [&](const auto& tensor) { return tensor.name == bias; });
    pair.refuses({"has no tensor " + bias});
    pair.gguf.tensors = all;
  }
}

TEST(GgufExperts, WhatIsMissingIsNamed) {
  mixtral(false).refuses({"llama.expert_used_count is missing"});
  Pair pair = mixtral();
  std::erase_if(pair.gguf.tensors,
                [](const auto& t) { return t.name.ends_with("up_exps.weight"); });
  pair.refuses({"has no tensor blk.0.ffn_up_exps.weight"});
}

TEST(GgufExperts, StacksOfOtherShapesAreNamed) {
  Pair pair = mixtral();
  GgufTestTensor& stack = pair.tensor("blk.0.ffn_up_exps.weight");
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{2, kRows, kWidth},
                                             {kExperts * kRows * kWidth, 1, 1},
                                             {kExperts, 1, kRows, kWidth}}) {
    stack.shape = shape;
    pair.refuses({"tensor blk.0.ffn_up_exps.weight has shape [" + std::to_string(shape[0]),
                  "llama.expert_count asks for 3 matrices"});
  }
  stack.shape = {kExperts, kWidth, kRows};
  pair.refuses({"tensor blk.0.ffn_up_exps.weight has shape [64, 40]", "asks for [40, 64]"});
  stack.shape = {kExperts * kRows, kWidth};
  pair.refuses({"ffn_up_exps.weight"});
}

TEST(GgufExperts, ABadValueIsNamedByItsRowInTheFile) {
  const float bad = std::numeric_limits<float>::quiet_NaN();
  Pair pair = mixtral();
  pair.tensor("blk.0.ffn_up_exps.weight")
      .data.replace((kRows + 17) * kWidth * sizeof bad, sizeof bad,
                    GgufWriter::bytes_of_number(bad));
  pair.refuses({"tensor blk.0.ffn_up_exps.weight has values", "(row 57)"});
}

TEST(GgufExperts, SettingsThatWouldChangeResultsAreRefusedByTheirKeys) {
  const auto with = [](const auto& put, const std::vector<std::string>& parts) {
    Pair pair = mixtral();
    put(&pair.gguf);
    pair.refuses(parts);
  };
  with([](GgufWriter* w) { w->put_flag("llama.expert_weights_norm", false); },
       {"llama.expert_weights_norm false is not supported"});
  with([](GgufWriter* w) { w->put_number("llama.expert_weights_scale", 2.5f); },
       {"llama.expert_weights_scale other than 1"});
  with([](GgufWriter* w) { w->put_count("llama.expert_gating_func", 2); },
       {"llama.expert_gating_func 'sigmoid' is not supported"});
  with([](GgufWriter* w) { w->put_count("llama.expert_gating_func", 3); },
       {"llama.expert_gating_func 3 is not supported"});
  for (const std::string key :
       {"expert_shared_count", "leading_dense_block_count", "expert_group_count",
        "expert_shared_feed_forward_length", "interleave_moe_layer_step", "attention.clamp_kqv"}) {
    with([&](GgufWriter* w) { w->put_count("llama." + key, 2); }, {"llama." + key});
  }
  for (const std::string name : {"ffn_gate_inp.bias", "ffn_gate_exps.bias", "exp_probs_b.bias",
                                 "ffn_up_shexp.weight", "ffn_norm_exps.weight"}) {
    Pair pair = mixtral();
    pair.gguf.tensors.push_back({"blk.0." + name, {1}, 0, "1234"});
    pair.refuses({"blk.0." + name});
  }
}

// What says nothing else than the architecture does is read.
TEST(GgufExperts, SettingsThatChangeNothingAreRead) {
  Pair pair = mixtral();
  pair.gguf.put_flag("llama.expert_weights_norm", true);
  pair.gguf.put_number("llama.expert_weights_scale", 1.0f);
  pair.gguf.put_count("llama.expert_gating_func", 1);
  pair.gguf.put_count("llama.expert_group_count", 1);
  pair.expect_same();
}

}  // namespace
}  // namespace cria::test
