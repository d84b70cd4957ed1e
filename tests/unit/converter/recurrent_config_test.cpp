// Configs of Qwen3.5, Qwen3-Next and Granite 4 -h: fields, defaults and refusals.
#include <gtest/gtest.h>

#include "tests/unit/converter/family_config.h"

namespace cria::test {
namespace {

namespace flag = format::flag;
using format::Mixer;

class RecurrentConfig : public FamilyConfig {
 protected:
  void become_qwen35() {
    become("Qwen3_5ForCausalLM", "qwen3_5_text",
           {{"num_hidden_layers", 8}, {"head_dim", 32}, {"linear_num_value_heads", 48}});
  }
  void become_qwen3_next() {
    become("Qwen3NextForCausalLM", "qwen3_next",
           {{"num_hidden_layers", 4}, {"head_dim", 32}, {"num_experts", 12}});
  }
  void become_granite() {
    become("GraniteMoeHybridForCausalLM", "granitemoehybrid",
           {{"layer_types", {"mamba", "attention", "mamba"}},
            {"num_local_experts", 0},
            {"shared_intermediate_size", 80},
            {"mamba_n_heads", 4},
            {"mamba_d_state", 16}});
  }
  std::vector<uint8_t> mixers() {
    const ConfigParts parts = import().config;
    std::vector<uint8_t> found;
    for (const uint8_t number : parts.layers) found.push_back(parts.kinds.at(number).mixer);
    return found;
  }
};

constexpr auto kAttention = static_cast<uint8_t>(Mixer::kAttention);
constexpr auto kDelta = static_cast<uint8_t>(Mixer::kDeltaRule);
constexpr auto kSpace = static_cast<uint8_t>(Mixer::kStateSpace);

TEST_F(RecurrentConfig, AQwen35AttendsInEachFourthLayer) {
  become_qwen35();
  EXPECT_EQ(mixers(), (std::vector<uint8_t>{kDelta, kDelta, kDelta, kAttention, kDelta, kDelta,
                                            kDelta, kAttention}));
  config_["full_attention_interval"] = 3;
  EXPECT_EQ(mixers()[2], kAttention);
  config_["layer_types"] = {"full_attention",   "full_attention", "full_attention",
                            "linear_attention", "full_attention", "full_attention",
                            "full_attention",   "full_attention"};
  EXPECT_EQ(mixers()[3], kDelta);
  EXPECT_EQ(mixers()[0], kAttention);
  config_.erase("layer_types");
  refuses("full_attention_interval", 0);
  refuses("layer_types", std::vector<std::string>(8, "mamba"), {"attention or linear_attention"});
  refuses("layer_types", std::vector<std::string>(7, "linear_attention"), {"7 layers"});
}

// Rows that are multiplied so are infinite when a norm squares them, or zero.
TEST_F(RecurrentConfig, MultipliersThatNoFloatBearsAreRefused) {
  const auto refuses_all = [this](const char* key) {
    for (const double value : {0x1p64, -0x1p64, 1e-10, 1e-60, -1e-60, 0.0}) {
      refuses(key, value, {"1e-9"});
    }
  };
  become_granite();
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "attention_multiplier"}) {
    refuses_all(key);
  }
  for (const double value : {0x1p64, 1e-10, 1e-60}) {
    refuses("logits_scaling", value, {"from 1e-9 to 1e15"});
  }
  become("MiniCPMForCausalLM", "minicpm", {{"scale_emb", 12}, {"scale_depth", 1.4}});
  for (const char* key : {"scale_emb", "scale_depth"}) refuses_all(key);
  refuses("rms_norm_eps", 1e-60, {"out of the range"});
  become("Lfm2MoeForCausalLM", "lfm2_moe",
         {{"layer_types", {"conv", "full_attention", "conv"}},
          {"num_experts", 4},
          {"num_experts_per_tok", 2},
          {"moe_intermediate_size", 32}});
  refuses_all("routed_scaling_factor");
}

TEST_F(RecurrentConfig, ADeltaRuleHasWhatItsKeysSay) {
  become_qwen35();
  LayerKind k = kind(0);
  EXPECT_EQ(k.n_query_heads, 16);
  EXPECT_EQ(k.n_key_heads, 16);
  EXPECT_EQ(k.n_value_heads, 48);
  EXPECT_EQ(k.key_dim, 128);
  EXPECT_EQ(k.value_dim, 128);
  EXPECT_EQ(k.conv_taps, 4);
  EXPECT_EQ(k.unit_epsilon, 1e-6F);
  EXPECT_EQ(k.inner_epsilon, 1e-5F);
  EXPECT_EQ(k.rope_table, format::kNoTable);
  EXPECT_EQ(k.score_multiplier, 0.0F);
  EXPECT_EQ(k.d_ff, 96u);
  EXPECT_EQ(k.flags, converter::kLlamaFlags);
  for (const char* key : {"linear_num_key_heads", "linear_num_value_heads"}) config_[key] = 6;
  config_["linear_key_head_dim"] = 20;
  config_["linear_value_head_dim"] = 10;
  config_["linear_conv_kernel_dim"] = 3;
  k = kind(0);
  EXPECT_EQ(k.n_key_heads, 6);
  EXPECT_EQ(k.key_dim, 20);
  EXPECT_EQ(k.value_dim, 10);
  EXPECT_EQ(k.conv_taps, 3);
  refuses("linear_num_key_heads", 4, {"must divide linear_num_value_heads"});
  refuses("linear_num_key_heads", 0);
  refuses("linear_key_head_dim", 15, {"even"});
  refuses("linear_value_head_dim", 514, {"512"});
  refuses("linear_conv_kernel_dim", 9, {"from 2 to 8"});
  config_["linear_value_head_dim"] = 512;
  refuses("linear_num_value_heads", 600, {"131072"});
}

TEST_F(RecurrentConfig, AQwen35sAttentionHasAGateAndTurnsAQuarter) {
  become_qwen35();
  const ImportedConfig imported = import();
  const LayerKind k = kind(3);
  EXPECT_EQ(k.flags, converter::kLlamaFlags | flag::kHeadNorms | flag::kOutputGate);
  ASSERT_EQ(imported.config.model.n_rope_tables, 1u);
  EXPECT_EQ(imported.config.model.rope_tables[0].n_pairs, 4u);
  EXPECT_EQ(k.rope_table, 0);
  EXPECT_TRUE(imported.form.norms_add_one);
  config_["rope_parameters"] = {{"rope_type", "default"},
                                {"partial_rotary_factor", 0.5},
                                {"mrope_section", {2, 1, 1}},
                                {"mrope_interleaved", true}};
  EXPECT_EQ(import().config.model.rope_tables[0].n_pairs, 8u);
}

TEST_F(RecurrentConfig, AModelThatSeesIsReadByItsText) {
  become_qwen35();
  const Json text = config_;
  config_ = {{"architectures", {"Qwen3_5ForConditionalGeneration"}},
             {"model_type", "qwen3_5"},
             {"text_config", text}};
  config_["text_config"].erase("architectures");
  EXPECT_EQ(mixers().front(), kDelta);
}

TEST_F(RecurrentConfig, AQwen3NextHasExpertsAndOneBehindAGate) {
  become_qwen3_next();
  for (const size_t layer : {0u, 3u}) {
    const LayerKind k = kind(layer);
    EXPECT_EQ(k.mixer, layer == 3 ? kAttention : kDelta);
    EXPECT_EQ(k.n_experts, 12);
    EXPECT_EQ(k.n_chosen, 10);
    EXPECT_EQ(k.expert_ff, 512u);
    EXPECT_EQ(k.d_ff, 512u);
    EXPECT_TRUE(has(layer, flag::kSharedGate | flag::kNormalizedChoice));
  }
  config_["norm_topk_prob"] = false;
  EXPECT_FALSE(has(0, flag::kNormalizedChoice));
  config_["mlp_only_layers"] = {1};
  EXPECT_EQ(expert_layers(), (std::vector<bool>{true, false, true, true}));
  EXPECT_EQ(kind(1).d_ff, 96u);
}

TEST_F(RecurrentConfig, AGraniteHasStateSpaces) {
  become_granite();
  EXPECT_EQ(mixers(), (std::vector<uint8_t>{kSpace, kAttention, kSpace}));
  LayerKind k = kind(0);
  EXPECT_EQ(k.n_query_heads, 1);
  EXPECT_EQ(k.n_value_heads, 4);
  EXPECT_EQ(k.key_dim, 16);
  EXPECT_EQ(k.value_dim, 32);
  EXPECT_EQ(k.conv_taps, 4);
  EXPECT_EQ(k.unit_epsilon, 0.0F);
  EXPECT_EQ(k.inner_epsilon, 1e-5F);
  EXPECT_EQ(k.d_ff, 80u);
  EXPECT_EQ(k.flags, converter::kLlamaFlags | flag::kConvolutionBias);
  config_["mamba_d_head"] = "auto";
  config_["mamba_conv_bias"] = false;
  config_["mamba_proj_bias"] = true;
  k = kind(0);
  EXPECT_EQ(k.value_dim, 32);
  EXPECT_EQ(k.flags, converter::kLlamaFlags | flag::kMixerBias | flag::kOutputBias);
  refuses("mamba_d_head", 16, {"mamba_expand"});
  refuses("mamba_n_heads", 3, {"mamba_expand"});
  refuses("mamba_n_groups", 2, {"disagree"});
  refuses("mamba_d_state", 1);
  refuses("mamba_d_conv", 1);
  refuses("hidden_act", "gelu_new", {"silu"});
}

TEST_F(RecurrentConfig, AGranitesTimeStepsAreWithoutLimits) {
  become_granite();
  for (const Json& limits :
       {Json({0.0, {{"__float__", "Infinity"}}}), Json({0, {{"__float__", "Infinity"}}})}) {
    config_["time_step_limit"] = limits;
    EXPECT_EQ(kind(0).mixer, kSpace);
  }
  config_.erase("time_step_limit");
  refuses("time_step_limit", {0.0, 100.0});
  refuses("time_step_limit", {0.001, {{"__float__", "Infinity"}}});
  refuses("time_step_limit", {0.0});
  refuses("time_step_limit", "none");
}

TEST_F(RecurrentConfig, AGraniteMayHaveExperts) {
  become_granite();
  config_["num_local_experts"] = 8;
  config_["num_experts_per_tok"] = 3;
  for (const size_t layer : {0u, 1u}) {
    const LayerKind k = kind(layer);
    EXPECT_EQ(k.n_experts, 8);
    EXPECT_EQ(k.n_chosen, 3);
    EXPECT_EQ(k.expert_ff, 96u);
    EXPECT_EQ(k.d_ff, 80u);
    EXPECT_TRUE(has(layer, flag::kNormalizedChoice));
    EXPECT_FALSE(has(layer, flag::kSharedGate));
  }
  config_.erase("num_experts_per_tok");
  EXPECT_EQ(kind(0).n_chosen, 2);
}

}  // namespace
}  // namespace cria::test
