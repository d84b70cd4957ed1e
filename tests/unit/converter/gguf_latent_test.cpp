// GGUF files of DeepSeek's models, of either form, become the files of their folders; what does not
// fit is refused by their own names.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "tests/unit/converter/gguf_pair.h"

namespace cria::test {
namespace {

constexpr uint32_t kHeads = 2;
constexpr uint32_t kOwn = 16;
constexpr uint32_t kShared = 8;
constexpr uint32_t kValue = 12;
constexpr uint32_t kRank = 24;
constexpr uint32_t kRows = 40;  // of an expert
constexpr size_t kMatrixBytes = sizeof(float) * kRank;

struct Form {
  bool is_v3 = true;
  bool is_apart = true;  // as files are since 2025-04
  uint32_t query_rank = 20;
  uint32_t n_layers = 2;  // the first one dense
  bool has_experts = true;
  // Counts that the file has in place of its own, or lacks.
  std::map<std::string, uint32_t> changed = {};
  std::set<std::string> lacking = {};
};

std::string form_name(const Form& form) {
  return std::string(form.is_v3 ? "V3" : "V2") + (form.is_apart ? " apart" : " whole") + ", rank " +
         std::to_string(form.query_rank);
}

void put_counts(const Form& form, Pair* pair) {
  const uint32_t key_dim = kOwn + kShared;
  std::map<std::string, uint32_t> counts = {{"block_count", form.n_layers},
                                            {"embedding_length", kWidth},
                                            {"feed_forward_length", 96},
                                            {"context_length", 128},
                                            {"vocab_size", kVocab},
                                            {"leading_dense_block_count", 1},
                                            {"rope.dimension_count", kShared},
                                            {"attention.head_count", kHeads},
                                            {"attention.kv_lora_rank", kRank}};
  if (form.query_rank != 0) counts["attention.q_lora_rank"] = form.query_rank;
  if (form.is_apart) {
    counts["attention.head_count_kv"] = 1;
    counts["attention.key_length"] = kRank + kShared;
    counts["attention.value_length"] = kRank;
    counts["attention.key_length_mla"] = key_dim;
    counts["attention.value_length_mla"] = kValue;
  } else {
    counts["attention.head_count_kv"] = kHeads;
    counts["attention.key_length"] = key_dim;
    counts["attention.value_length"] = kValue;
  }
  if (form.has_experts) {
    counts["expert_count"] = kExperts;
    counts["expert_used_count"] = 2;
    counts["expert_shared_count"] = 2;
    counts["expert_feed_forward_length"] = kRows;
    if (form.is_v3) counts["expert_gating_func"] = 2;
  }
  for (const auto& [key, value] : form.changed) counts[key] = value;
  for (const std::string& key : form.lacking) counts.erase(key);
  for (const auto& [key, value] : counts) pair->gguf.put_count("deepseek2." + key, value);
}

// The keys that expand to kOwn, then the values: [heads][kOwn + kValue][rank] in the folder.
void put_expansions(bool is_apart, Pair* pair) {
  pair->put("self_attn.kv_b_proj.weight", "attn_kv_b.weight", {kHeads * (kOwn + kValue), kRank});
  if (!is_apart) return;
  const GgufTestTensor whole = pair->gguf.tensors.back();
  pair->gguf.tensors.pop_back();
  const std::string block = whole.name.substr(0, whole.name.find("attn"));
  GgufTestTensor keys = {block + "attn_k_b.weight", {kHeads, kRank, kOwn}, 0, ""};
  GgufTestTensor values = {block + "attn_v_b.weight", {kHeads, kValue, kRank}, 0, ""};
  for (size_t head = 0; head < kHeads; ++head) {
    const size_t begin = head * (kOwn + kValue);
    for (size_t column = 0; column < kRank; ++column) {
      for (size_t row = begin; row < begin + kOwn; ++row) {
        keys.data += whole.data.substr((row * kRank + column) * sizeof(float), sizeof(float));
      }
    }
    values.data += whole.data.substr((begin + kOwn) * kMatrixBytes, kValue * kMatrixBytes);
  }
  pair->gguf.tensors.push_back(std::move(keys));
  pair->gguf.tensors.push_back(std::move(values));
}

void put_mlp(const std::string& name, const std::string& suffix, uint64_t width, Pair* pair) {
  pair->put(name + "gate_proj.weight", "ffn_gate" + suffix + ".weight", {width, kWidth});
  pair->put(name + "up_proj.weight", "ffn_up" + suffix + ".weight", {width, kWidth});
  pair->put(name + "down_proj.weight", "ffn_down" + suffix + ".weight", {kWidth, width});
}

void put_layer(const Form& form, Pair* pair) {
  constexpr uint64_t kQueries = kHeads * (kOwn + kShared);
  pair->put("input_layernorm.weight", "attn_norm.weight", {kWidth});
  if (form.query_rank == 0) {
    pair->put("self_attn.q_proj.weight", "attn_q.weight", {kQueries, kWidth});
  } else {
    pair->put("self_attn.q_a_proj.weight", "attn_q_a.weight", {form.query_rank, kWidth});
    pair->put("self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight", {form.query_rank});
    pair->put("self_attn.q_b_proj.weight", "attn_q_b.weight", {kQueries, form.query_rank});
  }
  pair->put("self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight",
            {kRank + kShared, kWidth});
  pair->put("self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight", {kRank});
  put_expansions(form.is_apart, pair);
  pair->put("self_attn.o_proj.weight", "attn_output.weight", {kWidth, kHeads * kValue});
  pair->put("post_attention_layernorm.weight", "ffn_norm.weight", {kWidth});
  if (pair->number == 0) return put_mlp("mlp.", "", 96, pair);
  pair->put("mlp.gate.weight", "ffn_gate_inp.weight", {kExperts, kWidth});
  if (form.is_v3) pair->put("mlp.gate.e_score_correction_bias", "exp_probs_b.bias", {kExperts});
  pair->put_stack("mlp.experts.", ".gate_proj.weight", "ffn_gate_exps.weight", {kRows, kWidth});
  pair->put_stack("mlp.experts.", ".up_proj.weight", "ffn_up_exps.weight", {kRows, kWidth});
  pair->put_stack("mlp.experts.", ".down_proj.weight", "ffn_down_exps.weight", {kWidth, kRows});
  put_mlp("mlp.shared_experts.", "_shexp", 2 * kRows, pair);
}

Pair deepseek(const Form& form = {}) {
  Pair pair(form.is_v3 ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM",
            form.is_v3 ? "deepseek_v3" : "deepseek_v2", "deepseek2", kRows);
  const std::pair<const char*, uint64_t> counts[] = {{"num_hidden_layers", form.n_layers},
                                                     {"intermediate_size", 96},
                                                     {"num_attention_heads", kHeads},
                                                     {"num_key_value_heads", kHeads},
                                                     {"qk_nope_head_dim", kOwn},
                                                     {"qk_rope_head_dim", kShared},
                                                     {"v_head_dim", kValue},
                                                     {"kv_lora_rank", kRank},
                                                     {"first_k_dense_replace", 1},
                                                     {"n_routed_experts", kExperts},
                                                     {"num_experts_per_tok", 2},
                                                     {"n_shared_experts", 2},
                                                     {"moe_intermediate_size", kRows},
                                                     {"routed_scaling_factor", 1},
                                                     {"n_group", 1},
                                                     {"topk_group", 1}};
  for (const auto& [key, value] : counts) pair.folder.config[key] = std::to_string(value);
  const uint32_t rank = form.query_rank;
  pair.folder.config["q_lora_rank"] = rank == 0 ? "null" : std::to_string(rank);
  pair.folder.config["norm_topk_prob"] = "false";
  pair.folder.tensors.clear();
  pair.gguf.put_text("general.architecture", "deepseek2");
  pair.gguf.put_number("deepseek2.attention.layer_norm_rms_epsilon", 1e-6F);
  put_counts(form, &pair);
  pair.put_named("model.embed_tokens.weight", "token_embd.weight", {kVocab, kWidth});
  pair.put_named("model.norm.weight", "output_norm.weight", {kWidth});
  pair.put_named("lm_head.weight", "output.weight", {kVocab, kWidth});
  for (uint32_t i = 0; i < form.n_layers; ++i) {
    pair.number = static_cast<int>(i);
    put_layer(form, &pair);
  }
  return pair;
}

template <typename Body>
void for_forms(const Body& body) {
  for (const bool is_v3 : {false, true}) {
    for (const bool is_apart : {false, true}) {
      for (const uint32_t query_rank : {0U, 20U}) {
        const Form form = {.is_v3 = is_v3, .is_apart = is_apart, .query_rank = query_rank};
        SCOPED_TRACE(form_name(form));
        body(form);
      }
    }
  }
}

// V3's own defaults are others: where the file is silent, nothing is scaled, divided or grouped.
TEST(GgufLatent, OfEitherFormTheFileIsItsFolder) {
  for_forms([](const Form& form) { deepseek(form).expect_same(); });
}

TEST(GgufLatent, PositionsAreScaledAsTheFolderSays) {
  for_forms([](const Form& form) {
    Pair pair = deepseek(form);
    pair.gguf.put_text("deepseek2.rope.scaling.type", "yarn");
    pair.gguf.put_number("deepseek2.rope.scaling.factor", 4);
    pair.gguf.put_count("deepseek2.rope.scaling.original_context_length", 32);
    pair.gguf.put_number("deepseek2.rope.scaling.yarn_log_multiplier", 0.125F);
    pair.folder.config["rope_scaling"] =
        R"({"type": "yarn", "factor": 4, "original_max_position_embeddings": 32,)"
        R"( "mscale": 1.25, "mscale_all_dim": 1.25})";
    pair.expect_same();
  });
  // Without the multiplier scores are not scaled, and the table of angles is.
  Pair pair = deepseek();
  pair.gguf.put_text("deepseek2.rope.scaling.type", "yarn");
  pair.gguf.put_number("deepseek2.rope.scaling.factor", 4);
  pair.folder.config["rope_scaling"] = R"({"type": "yarn", "factor": 4})";
  pair.expect_same();
}

TEST(GgufLatent, ExpertsAreChosenAsTheFolderSays) {
  for (const bool is_v3 : {false, true}) {
    Pair pair = deepseek({.is_v3 = is_v3});
    pair.gguf.put_number("deepseek2.expert_weights_scale", 2.5F);
    pair.folder.config["routed_scaling_factor"] = "2.5";
    if (is_v3) pair.gguf.put_flag("deepseek2.expert_weights_norm", true);
    if (is_v3) pair.folder.config["norm_topk_prob"] = "true";
    pair.expect_same();
  }
  // Three experts make three groups, which V3 cannot rank by their best two.
  Form form = {.is_v3 = false,
               .changed = {{"expert_group_count", 3}, {"expert_group_used_count", 2}}};
  Pair pair = deepseek(form);
  pair.folder.config["n_group"] = "3";
  pair.folder.config["topk_group"] = "2";
  pair.folder.config["topk_method"] = R"("group_limited_greedy")";
  pair.expect_same();
  form.is_v3 = true;
  deepseek(form).refuses({"deepseek2.expert_group_count gives groups of 1"});
  form.lacking = {"expert_group_used_count"};
  deepseek(form).refuses({"deepseek2.expert_group_used_count is missing"});
}

TEST(GgufLatent, AFileMayHaveNoExperts) {
  Pair pair = deepseek({.is_v3 = false, .n_layers = 1, .has_experts = false});
  pair.expect_same();
}

TEST(GgufLatent, WhatIsMissingIsNamed) {
  for (const std::string key :
       {"attention.kv_lora_rank", "attention.value_length_mla", "rope.dimension_count",
        "expert_count", "expert_used_count", "expert_shared_count", "expert_feed_forward_length"}) {
    deepseek({.lacking = {key}}).refuses({"deepseek2." + key + " is missing"});
  }
  for (const std::string key : {"attention.key_length", "attention.value_length"}) {
    deepseek({.is_apart = false, .lacking = {key}}).refuses({"deepseek2." + key + " is missing"});
  }
  for_forms([](const Form& form) {
    const Pair whole = deepseek(form);
    for (const GgufTestTensor& tensor : whole.gguf.tensors) {
      if (tensor.name == "output.weight") continue;  // else the embedding serves
      Pair pair = deepseek(form);
      std::erase_if(pair.gguf.tensors, [&](const auto& t) { return t.name == tensor.name; });
      pair.refuses({"has no tensor " + tensor.name});
    }
  });
}

TEST(GgufLatent, TensorsOfTheOtherFormAreNamed) {
  // Without its key the file is of the older form.
  deepseek({.lacking = {"attention.key_length_mla"}})
      .refuses({"deepseek2.attention.head_count_kv must be deepseek2.attention.head_count"});
  Pair pair = deepseek();
  const Pair older = deepseek({.is_apart = false});
  for (const GgufTestTensor& tensor : older.gguf.tensors) {
    if (tensor.name == "blk.0.attn_kv_b.weight") pair.gguf.tensors.push_back(tensor);
  }
  pair.refuses({"tensor blk.0.attn_kv_b.weight has no place"});
  pair = deepseek();
  pair.tensor("blk.1.attn_k_b.weight").shape = {kHeads, kOwn, kRank};
  pair.refuses({"tensor blk.1.attn_k_b.weight has shape [2, 16, 24]", "asks for [2, 24, 16]"});
  for (const std::string name : {"attn_kv_a_mqa.bias", "attn_kv_b.bias", "ffn_gate_up_exps.weight",
                                 "indexer.attn_k.weight"}) {
    pair = deepseek();
    pair.gguf.tensors.push_back({"blk.1." + name, {1}, 0, "1234"});
    pair.refuses({"tensor blk.1." + name + " has no place"});
  }
  // Where one matrix has a bias, others want theirs.
  pair = deepseek();
  pair.gguf.tensors.push_back({"blk.1.attn_q_a.bias", {1}, 0, "1234"});
  pair.refuses({"has no tensor blk.0.attn_kv_a_mqa.bias"});
  pair = deepseek({.is_v3 = false});
  pair.gguf.tensors.push_back({"blk.1.exp_probs_b.bias", {1}, 0, "1234"});
  pair.refuses({"tensor blk.1.exp_probs_b.bias has no place"});
}

TEST(GgufLatent, CountsThatCannotBeAreNamed) {
  constexpr uint32_t kMost = 0xFFFFFFFF;
  const auto refuses = [](bool is_apart, const std::string& key, uint32_t value,
                          const std::string& named) {
    SCOPED_TRACE(key + " = " + std::to_string(value));
    deepseek({.is_apart = is_apart, .changed = {{key, value}}}).refuses({"deepseek2." + named});
  };
  for (const std::string key :
       {"attention.head_count", "attention.kv_lora_rank", "expert_count", "expert_used_count",
        "expert_feed_forward_length", "block_count", "attention.value_length_mla"}) {
    for (const uint32_t value : {0U, kMost}) refuses(true, key, value, "");
  }
  for (const std::string key :
       {"attention.q_lora_rank", "expert_shared_count", "attention.key_length_mla"}) {
    refuses(true, key, kMost, key);
  }
  for (const uint32_t value : {0U, kShared - 1, kShared}) {
    refuses(false, "attention.key_length", value, "rope.dimension_count must be below");
  }
  for (const auto& [n, chosen, named] :
       {std::tuple(kMost, 1U, "count"), std::tuple(3U, kMost, "used_count"),
        std::tuple(2U, 1U, "count"), std::tuple(3U, 0U, "used_count")}) {
    deepseek({.is_v3 = false,
              .changed = {{"expert_group_count", n}, {"expert_group_used_count", chosen}}})
        .refuses({"deepseek2.expert_group_" + std::string(named)});
  }
  refuses(true, "attention.key_length_mla", kShared, "rope.dimension_count must be below");
  for (const uint32_t value : {0U, kShared - 1, kOwn + kShared, kMost}) {
    refuses(false, "rope.dimension_count", value, "");
  }
  refuses(true, "attention.key_length_mla", 25, "attention.key_length_mla must be even");
  refuses(true, "attention.key_length", 33, "attention.key_length must be 32");
  refuses(true, "attention.value_length", 23, "attention.value_length must be 24");
  refuses(true, "attention.head_count_kv", 2, "attention.head_count_kv must be 1");
  refuses(false, "attention.head_count_kv", 1, "attention.head_count_kv must be");
  refuses(false, "attention.key_length", kMost - 7, "attention.key_length");
  deepseek({.changed = {{"leading_dense_block_count", kMost}}})
      .refuses({"has no tensor blk.1.ffn_gate.weight"});
}

TEST(GgufLatent, SettingsThatWouldChangeResultsAreRefusedByTheirKeys) {
  const auto with = [](const Form& form, const auto& put, const std::vector<std::string>& parts) {
    Pair pair = deepseek(form);
    put(&pair.gguf);
    pair.refuses(parts);
  };
  deepseek({.changed = {{"expert_gating_func", 3}}})
      .refuses({"deepseek2.expert_gating_func 3 is not supported"});
  with({.is_v3 = false}, [](GgufWriter* w) { w->put_flag("deepseek2.expert_weights_norm", true); },
       {"deepseek2.expert_weights_norm is not supported"});
  with({}, [](GgufWriter* w) { w->put_number("deepseek2.attention.temperature_scale", 0.1F); },
       {"deepseek2.attention.temperature_scale is not supported"});
  with({}, [](GgufWriter* w) { w->put_number("deepseek2.rope.scaling.yarn_log_multiplier", 0.1F); },
       {"deepseek2.rope.scaling.yarn_log_multiplier is not supported without yarn"});
  const auto with_yarn = [&](const std::string& key, float value, const std::string& problem) {
    with({},
         [&](GgufWriter* w) {
           w->put_text("deepseek2.rope.scaling.type", "yarn");
           w->put_number("deepseek2.rope.scaling.factor", 4);
           w->put_number("deepseek2.rope.scaling." + key, value);
         },
         {"deepseek2.rope.scaling." + key + " " + problem});
  };
  with_yarn("attn_factor", 2, "other than 1 is not supported");
  with_yarn("yarn_log_multiplier", 1e30F, "must be from");
}

}  // namespace
}  // namespace cria::test
