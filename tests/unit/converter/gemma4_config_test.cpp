// Configs of Gemma 4: fields, defaults and refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/converter/family_config.h"

namespace cria::test {
namespace {

namespace flag = format::flag;

class Gemma4Config : public FamilyConfig {
 protected:
  // The form of E2B: two periods of three layers, the last three of which share.
  void become_e() {
    become("Gemma4ForCausalLM", "gemma4_text",
           {{"num_hidden_layers", 6},
            {"num_key_value_heads", 1},
            {"head_dim", 16},
            {"global_head_dim", 32},
            {"hidden_size_per_layer_input", 9},
            {"vocab_size_per_layer_input", 50},
            {"num_kv_shared_layers", 3},
            {"use_double_wide_mlp", true},
            {"layer_types",
             {"sliding_attention", "sliding_attention", "full_attention", "sliding_attention",
              "sliding_attention", "full_attention"}}});
  }
  // That of 26B-A4B.
  void become_moe() {
    become("Gemma4ForCausalLM", "gemma4_text",
           {{"num_hidden_layers", 7},
            {"hidden_size_per_layer_input", 0},
            {"head_dim", 16},
            {"attention_k_eq_v", true},
            {"num_global_key_value_heads", 1},
            {"enable_moe_block", true},
            {"num_experts", 8},
            {"top_k_experts", 2},
            {"moe_intermediate_size", 24}});
  }
};

TEST_F(Gemma4Config, LayersOfTheEFormAreOfFourKinds) {
  become_e();
  const ImportedConfig imported = import();
  EXPECT_EQ(imported.config.layers, (std::vector<uint8_t>{0, 0, 1, 2, 2, 3}));
  const LayerKind sliding = kind(0);
  constexpr uint32_t kCommon = converter::kLlamaFlags | flag::kMixerOutNorm | flag::kFfnOutNorm |
                               flag::kHeadNorms | flag::kLayerScale | flag::kPerLayerInput;
  EXPECT_EQ(sliding.flags, kCommon | flag::kValueNorm);
  EXPECT_EQ(sliding.key_dim, 16);
  EXPECT_EQ(sliding.value_dim, 16);
  EXPECT_EQ(sliding.window, 512u);
  EXPECT_EQ(sliding.rope_table, 1);
  EXPECT_EQ(sliding.score_multiplier, 1.0F);
  EXPECT_EQ(sliding.activation, 2);
  EXPECT_EQ(sliding.shared_with, format::kNoKind);
  EXPECT_EQ(sliding.d_ff, 96u);
  const LayerKind full = kind(2);
  EXPECT_EQ(full.flags, sliding.flags);
  EXPECT_EQ(full.key_dim, 32);
  EXPECT_EQ(full.value_dim, 32);
  EXPECT_EQ(full.n_key_heads, 1);
  EXPECT_EQ(full.window, 0u);
  EXPECT_EQ(full.rope_table, 0);
  EXPECT_EQ(kind(3).shared_with, 0);
  EXPECT_EQ(kind(5).shared_with, 1);
  EXPECT_EQ(kind(3).flags, kCommon);
  EXPECT_EQ(kind(3).d_ff, 192u);
  config_["use_double_wide_mlp"] = false;
  EXPECT_EQ(kind(3).d_ff, 96u);
}

TEST_F(Gemma4Config, ScalarsFollowFromTheWidths) {
  become_e();
  config_["final_logit_softcapping"] = 30;
  const ImportedConfig imported = import();
  const format::ModelScalars& m = imported.config.model;
  EXPECT_EQ(m.embedding_multiplier, 8.0F);
  EXPECT_EQ(m.logits_cap, 30.0F);
  EXPECT_EQ(m.per_layer_width, 9u);
  EXPECT_EQ(m.per_layer_table_multiplier, 3.0F);
  EXPECT_EQ(m.per_layer_input_multiplier, 0.125F);
  EXPECT_EQ(m.per_layer_sum_multiplier, static_cast<float>(std::sqrt(0.5)));
  EXPECT_FALSE(imported.form.norms_add_one);
  EXPECT_TRUE(imported.tied_embedding);
}

TEST_F(Gemma4Config, FullLayersTurnAQuarterOfTheirPairs) {
  become_e();
  const auto tables = [&] {
    const ImportedConfig imported = import();
    EXPECT_EQ(imported.config.model.n_rope_tables, 2u);
    EXPECT_EQ(imported.config.model.rope_tables[0].n_pairs, 16u);
    EXPECT_EQ(imported.config.model.rope_tables[1].n_pairs, 8u);
    return imported.rope;
  };
  const auto power = [](double theta, double exponent) {
    return static_cast<float>(std::pow(theta, exponent));
  };
  const std::vector<float> usual = tables();
  ASSERT_EQ(usual.size(), 24u);
  EXPECT_EQ(usual[0], 1.0F);
  EXPECT_FLOAT_EQ(usual[3], power(1e6, -6.0 / 32));
  for (size_t i = 4; i < 16; ++i) EXPECT_EQ(usual[i], 0.0F);
  EXPECT_FLOAT_EQ(usual[17], power(1e4, -2.0 / 16));
  const Json parameters = {
      {"full_attention",
       {{"rope_type", "proportional"}, {"rope_theta", 1e6}, {"partial_rotary_factor", 0.25}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
  config_["rope_parameters"] = parameters;
  EXPECT_EQ(tables(), usual);
  config_["rope_parameters"]["full_attention"]["partial_rotary_factor"] = 0.5;
  config_["rope_parameters"]["full_attention"]["factor"] = 4;
  const std::vector<float> stretched = tables();
  EXPECT_EQ(stretched[0], 0.25F);
  EXPECT_FLOAT_EQ(stretched[7], power(1e6, -14.0 / 32) / 4);
  EXPECT_EQ(stretched[8], 0.0F);
  const auto expect_refused = [&](const char* layers, const char* key, const Json& value) {
    SCOPED_TRACE(std::string(layers) + "." + key + " = " + value.dump());
    config_["rope_parameters"] = parameters;
    config_["rope_parameters"][layers][key] = value;
    const std::string name = "config.json: rope_parameters." + std::string(layers) + "." + key;
    expect_invalid({name + " "}, [&] { (void)import(); });
  };
  expect_refused("full_attention", "rope_type", "default");
  expect_refused("full_attention", "partial_rotary_factor", 0);
  expect_refused("full_attention", "partial_rotary_factor", 1.5);
  expect_refused("full_attention", "factor", -1);
  expect_refused("sliding_attention", "partial_rotary_factor", 0.5);
  config_["rope_parameters"] = parameters;
  config_["rope_parameters"].erase("sliding_attention");
  expect_invalid({"config.json: rope_parameters.sliding_attention "}, [&] { (void)import(); });
}

TEST_F(Gemma4Config, TheLastLayerHasNoWindow) {
  become_e();
  config_["layer_types"][5] = "sliding_attention";
  EXPECT_EQ(kind(5).window, 0u);
  EXPECT_EQ(kind(5).shared_with, 1);
  config_.erase("layer_types");
  config_["num_kv_shared_layers"] = 0;
  config_["num_hidden_layers"] = 8;
  EXPECT_EQ(import().config.layers, (std::vector<uint8_t>{0, 0, 0, 0, 0, 1, 0, 1}));
}

TEST_F(Gemma4Config, LayersShareOnlyWhatIsThere) {
  become_e();
  for (const uint32_t n : {6u, 7u}) {
    refuses("num_kv_shared_layers", n, {"must be below num_hidden_layers"});
  }
  refuses("num_kv_shared_layers", 4, {"without a window", "layer 2 "});
  config_["layer_types"] = {"full_attention",    "sliding_attention", "full_attention",
                            "sliding_attention", "full_attention",    "full_attention"};
  config_["num_kv_shared_layers"] = 5;
  expect_invalid({"num_kv_shared_layers", "with a window", "layer 1"}, [&] { (void)import(); });
  config_["num_kv_shared_layers"] = 1;
  EXPECT_EQ(kind(5).shared_with, 0);
  config_["intermediate_size"] = 1 << 19;
  expect_invalid({"intermediate_size", "524288"}, [&] { (void)import(); });
}

TEST_F(Gemma4Config, AMixtureHasAnMlpBesideAndValuesThatAreKeys) {
  become_moe();
  EXPECT_EQ(import().config.layers, (std::vector<uint8_t>{0, 0, 0, 0, 0, 1, 1}));
  const LayerKind sliding = kind(0);
  EXPECT_EQ(sliding.feed_forward, 2);
  constexpr uint32_t kOfExperts =
      flag::kNormalizedChoice | flag::kRouterNorm | flag::kExpertScale | flag::kBranchNorms;
  EXPECT_EQ(sliding.flags & kOfExperts, kOfExperts);
  EXPECT_EQ(sliding.flags & (flag::kValuesAreKeys | flag::kPerLayerInput | flag::kSharedGate), 0u);
  EXPECT_EQ(sliding.n_key_heads, 2);
  EXPECT_EQ(sliding.d_ff, 96u);
  EXPECT_EQ(sliding.expert_ff, 24u);
  EXPECT_EQ(sliding.n_experts, 8);
  EXPECT_EQ(sliding.n_chosen, 2);
  EXPECT_EQ(sliding.router_score, 1);
  EXPECT_EQ(sliding.router_scale, 1.0F);
  EXPECT_EQ(sliding.router_epsilon, 0.0F);
  const LayerKind full = kind(5);
  EXPECT_TRUE(has(5, kOfExperts | flag::kValuesAreKeys | flag::kValueNorm));
  EXPECT_EQ(full.n_key_heads, 1);
  EXPECT_EQ(full.key_dim, 512);
  EXPECT_EQ(import().config.model.per_layer_width, 0u);
  EXPECT_EQ(import().config.model.per_layer_table_multiplier, 0.0F);
  refuses("num_global_key_value_heads", 3, {"must divide"});
  refuses("num_experts", nullptr);
  refuses("top_k_experts", nullptr);
  refuses("top_k_experts", 9);
  refuses("moe_intermediate_size", nullptr);
  // Sizes of experts that are switched off say nothing.
  config_["enable_moe_block"] = false;
  EXPECT_EQ(kind(0).feed_forward, 1);
  config_["num_global_key_value_heads"] = nullptr;
  EXPECT_EQ(kind(5).n_key_heads, 2);
}

TEST_F(Gemma4Config, WhatAFileCannotHoldIsRefused) {
  become_e();
  refuses("global_head_dim", 513);
  refuses("global_head_dim", 31, {"even"});
  refuses("global_head_dim", 514);
  refuses("hidden_size_per_layer_input", 4097);
  refuses("vocab_size_per_layer_input", 51, {"vocab_size"});
  refuses("use_bidirectional_attention", "all", {"later"});
  refuses("sliding_window", 0);
  refuses("sliding_window", nullptr);
  config_["num_attention_heads"] = 512;
  config_["num_key_value_heads"] = 512;
  config_["num_kv_shared_layers"] = 0;
  config_["global_head_dim"] = 512;
  expect_invalid({"global_head_dim", "131072"}, [&] { (void)import(); });
  become_e();
  config_["use_bidirectional_attention"] = "vision";  // pictures alone do
  EXPECT_NO_THROW((void)import());
  config_["global_head_dim"] = nullptr;  // then all heads are alike
  EXPECT_EQ(kind(2).key_dim, 16);
  config_["hidden_size_per_layer_input"] = nullptr;
  config_["vocab_size_per_layer_input"] = 51;
  EXPECT_EQ(import().config.model.per_layer_width, 0u);
  EXPECT_FALSE(has(0, flag::kPerLayerInput));
}

TEST_F(Gemma4Config, ASilentTextIsThatOfTheLibrary) {
  become_e();
  config_ = {{"architectures", {"Gemma4ForConditionalGeneration"}},
             {"model_type", "gemma4"},
             {"text_config",
              {{"model_type", "gemma4_text"},
               {"hidden_size", 2304},
               {"intermediate_size", 9216},
               {"num_hidden_layers", 30}}}};
  const ImportedConfig imported = import();
  EXPECT_EQ(imported.architecture, "Gemma4ForCausalLM");
  const format::ModelScalars& m = imported.config.model;
  EXPECT_EQ(m.vocab_size, 262144u);
  EXPECT_EQ(m.max_context, 131072u);
  EXPECT_EQ(m.per_layer_width, 256u);
  EXPECT_EQ(kind(0).n_query_heads, 8);
  EXPECT_EQ(kind(0).n_key_heads, 4);
  EXPECT_EQ(kind(0).key_dim, 256);
  EXPECT_EQ(kind(5).key_dim, 512);
  EXPECT_EQ(kind(0).window, 512u);
}

}  // namespace
}  // namespace cria::test
