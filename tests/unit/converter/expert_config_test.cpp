// Configs of GPT-2, of models with experts and of DeepSeek's: fields, defaults and refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/converter/family_config.h"

namespace cria::test {
namespace {

namespace flag = format::flag;

// GPT-2 ------------------------------------------------------------------------------------------

TEST_F(FamilyConfig, AGpt2IsSilentAboutMost) {
  become_gpt2();
  const ImportedConfig imported = import();
  const format::ModelScalars& model = imported.config.model;
  EXPECT_EQ(model.d_model, 48u);
  EXPECT_EQ(model.max_context, 1024u);
  EXPECT_EQ(model.final_norm, 2u);
  EXPECT_EQ(model.norm_epsilon, 1e-5F);
  EXPECT_EQ(model.n_rope_tables, 0u);
  EXPECT_EQ(model.flags, format::kLearnedPositions);
  EXPECT_TRUE(imported.tied_embedding);
  EXPECT_TRUE(imported.rope.empty());
  ASSERT_EQ(imported.config.kinds.size(), 1u);
  const LayerKind& k = imported.config.kinds[0];
  EXPECT_EQ(k.norm, 2);
  EXPECT_EQ(k.activation, 2);
  EXPECT_EQ(k.d_ff, 4 * 48u);
  EXPECT_EQ(k.key_dim, 16);
  EXPECT_EQ(k.n_key_heads, 3);
  EXPECT_EQ(k.score_multiplier, 0.25F);
  EXPECT_EQ(k.rope_table, format::kNoTable);
  EXPECT_EQ(k.flags, flag::kMixerNorm | flag::kFfnNorm | flag::kMixerBias | flag::kOutputBias |
                         flag::kFfnBias);
}

TEST_F(FamilyConfig, AGpt2SaysWhatItWants) {
  become_gpt2();
  config_["n_inner"] = 100;
  config_["n_positions"] = 77;
  config_["layer_norm_epsilon"] = 0.25;
  config_["activation_function"] = "relu2";
  config_["tie_word_embeddings"] = false;
  config_["scale_attn_weights"] = false;
  const ImportedConfig imported = import();
  EXPECT_EQ(imported.config.model.max_context, 77u);
  EXPECT_EQ(imported.config.model.norm_epsilon, 0.25F);
  EXPECT_FALSE(imported.tied_embedding);
  EXPECT_EQ(imported.config.kinds[0].d_ff, 100u);
  EXPECT_EQ(imported.config.kinds[0].activation, 3);
  EXPECT_EQ(imported.config.kinds[0].score_multiplier, 1.0F);
  config_["n_inner"] = nullptr;
  EXPECT_EQ(kind(0).d_ff, 4 * 48u);
}

TEST_F(FamilyConfig, OtherArchitecturesScoresAreScaledWhateverItsKeySays) {
  become_qwen3_moe();
  const float scaled = kind(0).score_multiplier;
  config_["scale_attn_weights"] = false;
  EXPECT_EQ(kind(0).score_multiplier, scaled);
}

TEST_F(FamilyConfig, AGpt2sLayersMayDivideTheirScores) {
  become_gpt2();
  config_["scale_attn_by_inverse_layer_idx"] = true;
  EXPECT_EQ(kind(0).score_multiplier, 0.25F);
  EXPECT_EQ(kind(2).score_multiplier, 0.25F / 3);
  config_["n_layer"] = 17;
  expect_invalid({"n_layer", "17 kinds", "at most 16"}, [&] { (void)import(); });
}

TEST_F(FamilyConfig, AGpt2sSettingsAreCalledAsItCallsThem) {
  become_gpt2();
  refuses("n_embd", 0);
  refuses("n_embd", 50, {"n_head"});
  refuses("n_layer", 0);
  refuses("n_positions", 0);
  for (const char* key : {"n_embd", "n_layer", "n_head"}) {
    const Json before = config_;
    config_.erase(key);
    expect_invalid({"config.json: " + std::string(key) + " is missing"}, [&] { (void)import(); });
    config_ = before;
  }
  refuses("n_inner", 0);
  refuses("layer_norm_epsilon", 1);
  refuses("activation_function", "gelu", {"'gelu' is not supported, only silu, swish, gelu_new"});
  refuses("activation_function", "relu");
  refuses("add_cross_attention", true);
  config_["hidden_size"] = 96;
  expect_invalid({"n_embd differs from hidden_size"}, [&] { (void)import(); });
  config_.erase("n_embd");
  config_.erase("hidden_size");
  expect_invalid({"missing"}, [&] { (void)import(); });
}

// Experts ----------------------------------------------------------------------------------------

TEST_F(FamilyConfig, AMixtralHasExpertsInAllLayers) {
  become("MixtralForCausalLM", "mixtral", Json::object());
  LayerKind k = kind(2);
  EXPECT_EQ(k.feed_forward, 2);
  EXPECT_EQ(k.n_experts, 8);
  EXPECT_EQ(k.n_chosen, 2);
  EXPECT_EQ(k.expert_ff, 96u);
  EXPECT_EQ(k.d_ff, 0u);
  EXPECT_EQ(k.window, 0u);
  EXPECT_EQ(k.router_scale, 1.0F);
  EXPECT_EQ(k.router_score, 1);
  EXPECT_TRUE(has(0, flag::kNormalizedChoice));
  EXPECT_EQ(import().rope[1], static_cast<float>(1 / std::pow(1e6, 2.0 / 16)));
  config_["num_local_experts"] = 5;
  config_["num_experts_per_tok"] = 3;
  config_["sliding_window"] = 8;
  k = kind(0);
  EXPECT_EQ(k.n_experts, 5);
  EXPECT_EQ(k.n_chosen, 3);
  EXPECT_EQ(k.window, 8u);
  config_.erase("num_local_experts");
  config_["num_experts"] = 6;
  EXPECT_EQ(kind(0).n_experts, 6);
}

TEST_F(FamilyConfig, CountsOfExpertsHaveLimits) {
  become("MixtralForCausalLM", "mixtral", {{"num_local_experts", 8}});
  refuses("num_local_experts", 0);
  refuses("num_local_experts", 1025, {"from 1 to 1024"});
  refuses("num_local_experts", 4294967295U);
  refuses("num_local_experts", -1);
  refuses("num_experts_per_tok", 0);
  refuses("num_experts_per_tok", 9, {"from 1 to 8"});
  refuses("intermediate_size", 1 << 20);
  config_["num_local_experts"] = 1024;
  refuses("intermediate_size", (1 << 14) + 1, {"times num_local_experts", "16777216"});
  refuses("num_experts_per_tok", 65, {"from 1 to 64"});
  config_["num_experts"] = 7;
  expect_invalid({"num_local_experts differs from num_experts"}, [&] { (void)import(); });
}

TEST_F(FamilyConfig, RoutersOfOtherModelsAreRefused) {
  become("MixtralForCausalLM", "mixtral", Json::object());
  refuses("scoring_func", "sigmoid");
  refuses("topk_method", "noaux_tc");
  refuses("n_group", 2);
  refuses("routed_scaling_factor", 2.5);
  refuses("moe_layer_freq", 2);
  refuses("n_shared_experts", 1);
  refuses("shared_expert_intermediate_size", 32);
  refuses("shared_intermediate_size", 32);
  refuses("mlp_only_layers", {0});
  refuses("first_k_dense_replace", 1);
  refuses("moe_intermediate_size", 32);
  refuses("clip_qkv", 8);
  refuses("kv_lora_rank", 512);
  refuses("attention_bias", true);
  refuses("hidden_act", "gelu");
  config_["scoring_func"] = "softmax";
  config_["topk_method"] = "greedy";
  config_["routed_scaling_factor"] = 1.0;
  config_["n_group"] = 1;
  EXPECT_NO_THROW((void)import());
}

TEST_F(FamilyConfig, AQwen3MoeNamesItsDenseLayers) {
  become_qwen3_moe();
  config_["num_hidden_layers"] = 6;
  EXPECT_EQ(expert_layers(), std::vector<bool>(6, true));
  LayerKind k = kind(0);
  EXPECT_EQ(k.expert_ff, 768u);
  EXPECT_EQ(k.n_chosen, 8);
  EXPECT_FALSE(has(0, flag::kNormalizedChoice));
  EXPECT_TRUE(has(0, flag::kHeadNorms));
  config_["mlp_only_layers"] = {1, 77};
  config_["decoder_sparse_step"] = 2;
  config_["norm_topk_prob"] = true;
  EXPECT_EQ(expert_layers(), (std::vector<bool>{false, false, false, true, false, true}));
  k = kind(0);
  EXPECT_EQ(k.feed_forward, 1);
  EXPECT_EQ(k.d_ff, 96u);
  EXPECT_EQ(k.n_experts, 0);
  EXPECT_TRUE(has(3, flag::kNormalizedChoice));
  refuses("decoder_sparse_step", 0);
  refuses("shared_expert_intermediate_size", 32);
  config_["num_experts"] = 0;
  EXPECT_EQ(expert_layers(), std::vector<bool>(6, false));
}

TEST_F(FamilyConfig, AQwen3MoesWindowIsThatOfAllLayers) {
  become_qwen3_moe();
  config_["sliding_window"] = 32;
  EXPECT_EQ(kind(0).window, 0u);
  config_["use_sliding_window"] = true;
  EXPECT_EQ(kind(0).window, 32u);
  EXPECT_EQ(kind(2).window, 32u);
  config_.erase("sliding_window");
  EXPECT_EQ(kind(1).window, 4096u);
}

TEST_F(FamilyConfig, AQwen2MoeHasAnMlpBesideItsExperts) {
  become_qwen2_moe();
  LayerKind k = kind(1);
  EXPECT_EQ(k.d_ff, 5632u);
  EXPECT_EQ(k.expert_ff, 1408u);
  EXPECT_EQ(k.n_chosen, 4);
  EXPECT_TRUE(has(1, flag::kSharedGate | flag::kMixerBias));
  EXPECT_FALSE(has(1, flag::kOutputBias));
  config_["shared_expert_intermediate_size"] = 40;
  config_["moe_intermediate_size"] = 24;
  config_["qkv_bias"] = false;
  config_["mlp_only_layers"] = {1};
  k = kind(0);
  EXPECT_EQ(k.d_ff, 40u);
  EXPECT_EQ(k.expert_ff, 24u);
  EXPECT_FALSE(has(0, flag::kMixerBias));
  EXPECT_FALSE(has(1, flag::kSharedGate));
  EXPECT_EQ(kind(1).d_ff, 96u);
  refuses("shared_expert_intermediate_size", 0);
}

// Every other layer, up to one of them.
TEST_F(FamilyConfig, AQwen2MoesWindowIsThatOfEvenLayers) {
  become_qwen2_moe();
  config_["num_hidden_layers"] = 5;
  config_["use_sliding_window"] = true;
  config_["sliding_window"] = 32;
  config_["max_window_layers"] = 4;
  const uint32_t wanted[] = {32, 0, 32, 0, 0};
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(kind(i).window, wanted[i]) << i;
}

TEST_F(FamilyConfig, AnOlmoeNormsProjectionsAndClips) {
  become("OlmoeForCausalLM", "olmoe", Json::object());
  const LayerKind k = kind(0);
  EXPECT_EQ(k.n_experts, 64);
  EXPECT_EQ(k.n_chosen, 8);
  EXPECT_EQ(k.expert_ff, 96u);
  EXPECT_EQ(k.qkv_clip, 0.0F);
  EXPECT_TRUE(has(0, flag::kWholeNorms));
  EXPECT_FALSE(has(0, flag::kNormalizedChoice));
  config_["clip_qkv"] = 1.5;
  config_["norm_topk_prob"] = true;
  EXPECT_EQ(kind(0).qkv_clip, 1.5F);
  EXPECT_TRUE(has(0, flag::kNormalizedChoice));
  refuses("clip_qkv", -1);
  refuses("clip_qkv", 0);
}

TEST_F(FamilyConfig, AGraniteMoeHasGranitesMultipliers) {
  become("GraniteMoeForCausalLM", "granitemoe",
         {{"num_local_experts", 6}, {"attention_multiplier", 0.5}, {"logits_scaling", 3}});
  EXPECT_EQ(kind(0).n_experts, 6);
  EXPECT_EQ(kind(0).score_multiplier, 0.5F);
  EXPECT_EQ(import().config.model.logits_divisor, 3.0F);
  EXPECT_TRUE(has(0, flag::kNormalizedChoice));
  refuses("shared_intermediate_size", 32);
}

// DeepSeek ---------------------------------------------------------------------------------------

TEST_F(FamilyConfig, ADeepseekV2sHeadsAreLatent) {
  become_deepseek(2);
  LayerKind k = kind(0);
  EXPECT_EQ(k.mixer, 2);
  EXPECT_EQ(k.n_query_heads, 4);
  EXPECT_EQ(k.n_key_heads, 1);
  EXPECT_EQ(k.key_dim, 24);
  EXPECT_EQ(k.value_dim, 12);
  EXPECT_EQ(k.shared_key_dim, 8);
  EXPECT_EQ(k.latent_rank, 24);
  EXPECT_EQ(k.query_rank, 1536);
  EXPECT_EQ(k.inner_epsilon, 1e-6F);
  EXPECT_EQ(k.norm_epsilon, 1e-5F);
  EXPECT_EQ(k.score_multiplier, static_cast<float>(1 / std::sqrt(24.0)));
  EXPECT_EQ(k.n_groups, 0);
  EXPECT_EQ(k.d_ff, 64u);  // two shared ones
  EXPECT_EQ(k.router_scale, 1.0F);
  EXPECT_TRUE(import().form.has_pairs);
  EXPECT_EQ(import().config.model.rope_tables[0].n_pairs, 4u);
  config_["q_lora_rank"] = nullptr;
  config_["n_shared_experts"] = nullptr;
  config_["first_k_dense_replace"] = 2;
  config_["routed_scaling_factor"] = 16;
  config_["attention_bias"] = true;
  EXPECT_EQ(expert_layers(), (std::vector<bool>{false, false, true}));
  k = kind(2);
  EXPECT_EQ(k.query_rank, 0);
  EXPECT_EQ(k.d_ff, 0u);
  EXPECT_EQ(k.router_scale, 16.0F);
  EXPECT_TRUE(has(2, flag::kMixerBias | flag::kOutputBias));
}

TEST_F(FamilyConfig, ADeepseekV2MayChooseFromGroups) {
  become_deepseek(2);
  config_["topk_method"] = "group_limited_greedy";
  refuses("n_group", nullptr);
  config_["n_group"] = 4;
  config_["topk_group"] = 2;
  const LayerKind k = kind(0);
  EXPECT_EQ(k.n_groups, 4);
  EXPECT_EQ(k.n_groups_chosen, 2);
  EXPECT_EQ(k.group_rank, 1);
  EXPECT_EQ(k.router_score, 1);
  refuses("n_group", 3, {"must divide n_routed_experts"});
  refuses("n_group", 17);
  refuses("topk_group", 5);
  config_["num_experts_per_tok"] = 9;
  refuses("topk_group", 2, {"fewer experts than num_experts_per_tok"});
}

TEST_F(FamilyConfig, ADeepseekV3ChoosesByBiasAndGroups) {
  become_deepseek(3);
  config_["num_hidden_layers"] = 4;
  EXPECT_EQ(expert_layers(), (std::vector<bool>{false, false, false, true}));
  const LayerKind k = kind(3);
  EXPECT_EQ(k.router_score, 2);
  EXPECT_EQ(k.n_groups, 8);
  EXPECT_EQ(k.n_groups_chosen, 4);
  EXPECT_EQ(k.group_rank, 2);
  EXPECT_EQ(k.router_scale, 2.5F);
  EXPECT_EQ(k.router_epsilon, 1e-20F);
  EXPECT_EQ(k.d_ff, 32u);
  EXPECT_TRUE(has(3, flag::kChoiceBias | flag::kNormalizedChoice));
  config_["norm_topk_prob"] = false;
  EXPECT_FALSE(has(3, flag::kNormalizedChoice));
  EXPECT_EQ(kind(3).router_epsilon, 0.0F);
  config_["n_group"] = 1;
  config_["topk_group"] = 1;
  EXPECT_EQ(kind(3).n_groups, 0);
  EXPECT_EQ(kind(3).group_rank, 0);
  refuses("n_group", 16, {"ranked by their best 2"});
  config_["rope_interleave"] = false;
  config_["num_nextn_predict_layers"] = 1;
  EXPECT_FALSE(import().form.has_pairs);
  EXPECT_EQ(import().form.n_extra_layers, 1u);
  become_deepseek(2);
  config_["rope_interleave"] = false;
  EXPECT_TRUE(import().form.has_pairs);
}

TEST_F(FamilyConfig, YarnMultipliesADeepseeksScores) {
  for (const int version : {2, 3}) {
    become_deepseek(version);
    config_["rope_scaling"] = {{"type", "yarn"},
                               {"factor", 40},
                               {"mscale", 1.0},
                               {"mscale_all_dim", 0.5},
                               {"original_max_position_embeddings", 32}};
    const double all = 0.1 * 0.5 * std::log(40.0) + 1;
    EXPECT_EQ(kind(0).score_multiplier, static_cast<float>(all * all / std::sqrt(24.0)));
    EXPECT_FLOAT_EQ(import().config.model.rope_tables[0].factor,
                    static_cast<float>((0.1 * std::log(40.0) + 1) / all));
    config_["rope_scaling"].erase("mscale_all_dim");
    EXPECT_EQ(kind(0).score_multiplier, static_cast<float>(1 / std::sqrt(24.0)));
  }
}

TEST_F(FamilyConfig, ADeepseeksOtherSettingsAreRefused) {
  for (const int version : {2, 3}) {
    become_deepseek(version);
    config_["num_hidden_layers"] = 4;
    refuses("num_key_value_heads", 2);
    refuses("qk_nope_head_dim", 15, {"even"});
    refuses("qk_rope_head_dim", 0);
    refuses("qk_rope_head_dim", 7, {"even"});
    refuses("qk_nope_head_dim", 512, {"qk_rope_head_dim"});
    refuses("v_head_dim", 514);
    refuses("kv_lora_rank", 1);
    refuses("kv_lora_rank", 513);
    refuses("q_lora_rank", 1 << 15);
    refuses("moe_layer_freq", 2);
    refuses("mlp_bias", true);
    refuses("n_shared_experts", 4294967295U);
    refuses("scoring_func", version == 2 ? "sigmoid" : "softmax");
    refuses("topk_method", version == 2 ? "noaux_tc" : "greedy");
    refuses("partial_rotary_factor", 0.5);
    refuses("moe_intermediate_size", 0);
  }
  become_deepseek(2);
  refuses("norm_topk_prob", true);
  refuses("num_experts_per_tok", nullptr, {"missing"});
}

}  // namespace
}  // namespace cria::test
