// Configs of LFM2: which layers are convolutions, the width of the MLP, experts, and refusals.
#include <gtest/gtest.h>

#include "tests/unit/converter/family_config.h"

namespace cria::test {
namespace {

namespace flag = format::flag;

constexpr uint8_t kConvolution = 3;

class Lfm2Config : public FamilyConfig {
 protected:
  void SetUp() override {
    become("Lfm2ForCausalLM", "lfm2",
           {{"layer_types", {"conv", "full_attention", "conv"}}, {"block_multiple_of", 16}});
    config_.erase("rms_norm_eps");
  }
  std::vector<bool> convolutions() {
    const ConfigParts parts = import().config;
    std::vector<bool> layers;
    for (const uint8_t number : parts.layers) {
      layers.push_back(parts.kinds.at(number).mixer == kConvolution);
    }
    return layers;
  }
  uint32_t width() { return kind(0).d_ff; }
};

TEST_F(Lfm2Config, HasConvolutionsWhereLayerTypesSaySo) {
  const ImportedConfig imported = import();
  EXPECT_EQ(imported.config.layers, (std::vector<uint8_t>{0, 1, 0}));
  EXPECT_TRUE(imported.tied_embedding);
  EXPECT_EQ(imported.config.model.norm_epsilon, 1e-5F);
  EXPECT_EQ(imported.config.model.n_rope_tables, 1u);
  EXPECT_EQ(imported.config.model.rope_tables[0].n_pairs, 8u);
  const LayerKind convolution = imported.config.kinds.at(0);
  EXPECT_EQ(convolution.mixer, kConvolution);
  EXPECT_EQ(convolution.conv_taps, 3);
  EXPECT_EQ(convolution.flags, flag::kMixerNorm | flag::kFfnNorm | flag::kGated);
  EXPECT_EQ(convolution.n_query_heads, 0);
  EXPECT_EQ(convolution.rope_table, format::kNoTable);
  EXPECT_EQ(convolution.score_multiplier, 0.0F);
  const LayerKind attention = imported.config.kinds.at(1);
  EXPECT_EQ(attention.mixer, 1);
  EXPECT_EQ(attention.conv_taps, 0);
  EXPECT_EQ(attention.n_key_heads, 2);
  EXPECT_EQ(attention.score_multiplier, 0.25F);
  EXPECT_EQ(attention.flags, flag::kMixerNorm | flag::kFfnNorm | flag::kGated | flag::kHeadNorms);
  EXPECT_EQ(attention.inner_epsilon, 1e-5F);
  refuses("layer_types", {"conv", "full_attention", "mamba"}, {"mamba", "attention or conv"});
  refuses("layer_types", {"conv", "full_attention"}, {"2 layers"});
}

TEST_F(Lfm2Config, ListsAttentionInOlderFiles) {
  config_.erase("layer_types");
  EXPECT_EQ(convolutions(), (std::vector<bool>{false, false, false}));
  config_["full_attn_idxs"] = {0, 2};
  EXPECT_EQ(convolutions(), (std::vector<bool>{false, true, false}));
  refuses("full_attn_idxs", {3}, {"has 3"});
  config_["full_attn_idxs"] = Json::array();
  const ImportedConfig imported = import();
  EXPECT_EQ(imported.config.kinds.size(), 1u);
  EXPECT_EQ(imported.config.model.n_rope_tables, 0u);
  EXPECT_TRUE(imported.rope.empty());
}

TEST_F(Lfm2Config, ComputesTheWidthOfItsMlp) {
  EXPECT_EQ(width(), 64u);  // two thirds of 96
  config_["intermediate_size"] = 100;
  EXPECT_EQ(width(), 80u);  // 66, in whole 16s
  config_["block_ffn_dim_multiplier"] = 1.5;
  EXPECT_EQ(width(), 112u);         // 99
  config_["block_ff_dim"] = 12288;  // wins
  config_["block_ffn_dim_multiplier"] = nullptr;
  config_["block_multiple_of"] = 256;
  EXPECT_EQ(width(), 8192u);
  config_["block_ff_dim"] = 6656;
  EXPECT_EQ(width(), 4608u);
  config_["block_auto_adjust_ff_dim"] = false;
  EXPECT_EQ(width(), 6656u);
  config_["block_auto_adjust_ff_dim"] = true;
  refuses("block_ffn_dim_multiplier", -1, {"not from 1"});
  refuses("block_ffn_dim_multiplier", 1e30, {"not from 1"});
  refuses("block_multiple_of", 0);
  refuses("block_ff_dim", 1, {"0 wide"});
}

TEST_F(Lfm2Config, HasTapsAndBiasesOfItsConvolutions) {
  config_["conv_L_cache"] = 4;
  config_["conv_bias"] = true;
  EXPECT_EQ(kind(0).conv_taps, 4);
  EXPECT_TRUE(has(0, flag::kMixerBias | flag::kOutputBias | flag::kConvolutionBias));
  EXPECT_EQ(kind(1).flags & (flag::kMixerBias | flag::kOutputBias | flag::kConvolutionBias), 0u);
  for (const int taps : {0, 1, 9}) refuses("conv_L_cache", taps, {"from 2 to 8"});
}

TEST_F(Lfm2Config, TakesTheSpellingsOfOlderFiles) {
  config_["norm_eps"] = 0.25;
  config_["tie_embedding"] = false;
  config_["theta"] = 100.0;
  const ImportedConfig imported = import();
  EXPECT_EQ(imported.config.model.norm_epsilon, 0.25F);
  EXPECT_FALSE(imported.tied_embedding);
  EXPECT_NEAR(imported.rope.at(1), 0.5623413F, 1e-6);  // 100^(-2/16)
}

TEST_F(Lfm2Config, WithExpertsHasDenseLayersFirst) {
  become("Lfm2MoeForCausalLM", "lfm2_moe",
         {{"layer_types", {"conv", "full_attention", "conv"}},
          {"num_experts", 8},
          {"num_experts_per_tok", 2},
          {"moe_intermediate_size", 24},
          {"num_dense_layers", 1}});
  EXPECT_EQ(expert_layers(), (std::vector<bool>{false, true, true}));
  EXPECT_EQ(convolutions(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(kind(0).d_ff, 96u);
  const LayerKind k = kind(2);
  EXPECT_EQ(k.d_ff, 0u);
  EXPECT_EQ(k.expert_ff, 24u);
  EXPECT_EQ(k.router_score, 2);
  EXPECT_EQ(k.router_scale, 1.0F);
  EXPECT_EQ(k.router_epsilon, 1e-6F);
  EXPECT_TRUE(has(2, flag::kChoiceBias | flag::kNormalizedChoice));
  config_["use_expert_bias"] = false;
  config_["norm_topk_prob"] = false;
  config_["routed_scaling_factor"] = 2.5;
  EXPECT_FALSE(has(2, flag::kChoiceBias));
  EXPECT_FALSE(has(2, flag::kNormalizedChoice));
  EXPECT_EQ(kind(2).router_epsilon, 0.0F);
  EXPECT_EQ(kind(2).router_scale, 2.5F);
  config_.erase("num_dense_layers");
  EXPECT_EQ(expert_layers(), (std::vector<bool>{false, false, true}));
  refuses("scoring_func", "softmax", {"only sigmoid"});
}

TEST_F(Lfm2Config, ThatSeesIsRefused) {
  become("Lfm2VlForConditionalGeneration", "lfm2_vl", Json::object());
  expect_invalid({"a model that sees or hears"}, [&] { (void)import(); });
}

}  // namespace
}  // namespace cria::test
