// Configs of families that are built of attention and dense layers, but not as Llama is: keys,
// defaults and refusals.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/converter/family_config.h"

namespace cria::test {
namespace {

namespace flag = format::flag;

class NormFamilies : public FamilyConfig {
 protected:
  std::vector<bool> windows() {
    const ConfigParts parts = import().config;
    std::vector<bool> layers;
    for (const uint8_t number : parts.layers) layers.push_back(parts.kinds[number].window != 0);
    return layers;
  }
};

TEST_F(NormFamilies, AGemma2SaysNothingAndIsOne) {
  become("Gemma2ForCausalLM", "gemma2", {{"num_hidden_layers", 4}});
  const ImportedConfig imported = import();
  EXPECT_TRUE(imported.tied_embedding);
  EXPECT_TRUE(imported.form.norms_add_one);
  EXPECT_EQ(imported.config.model.embedding_multiplier, 8.0F);
  EXPECT_EQ(imported.config.model.n_rope_tables, 1u);
  const LayerKind k = kind(0);
  EXPECT_EQ(k.activation, 2);
  EXPECT_EQ(k.key_dim, 256);
  EXPECT_EQ(k.score_multiplier, 1.0F / 16);
  EXPECT_EQ(k.score_cap, 50.0F);
  EXPECT_EQ(imported.config.model.logits_cap, 30.0F);
  EXPECT_TRUE(has(0, flag::kMixerNorm | flag::kMixerOutNorm | flag::kFfnNorm | flag::kFfnOutNorm));
  EXPECT_EQ(k.window, 4096u);
  EXPECT_EQ(windows(), (std::vector<bool>{true, false, true, false}));
}

TEST_F(NormFamilies, AGemma2sCapsAndScale) {
  become("Gemma2ForCausalLM", "gemma2",
         {{"query_pre_attn_scalar", 64},
          {"attn_logit_softcapping", 5.0},
          {"final_logit_softcapping", 4.0},
          {"layer_types", {"full_attention", "sliding_attention", "full_attention"}}});
  EXPECT_EQ(kind(0).score_multiplier, 0.125F);
  EXPECT_EQ(kind(0).score_cap, 5.0F);
  EXPECT_EQ(import().config.model.logits_cap, 4.0F);
  EXPECT_EQ(windows(), (std::vector<bool>{false, true, false}));
  for (const char* key :
       {"query_pre_attn_scalar", "attn_logit_softcapping", "final_logit_softcapping"}) {
    refuses(key, 0, {"above zero"});
    refuses(key, -1);
    refuses(key, 1e-10, {"from 1e-9 to 1e15"});
    refuses(key, 0x1p64, {"from 1e-9 to 1e15"});
  }
  config_["attn_logit_softcapping"] = nullptr;
  config_["final_logit_softcapping"] = nullptr;
  EXPECT_EQ(kind(0).score_cap, 0.0F);
  EXPECT_EQ(import().config.model.logits_cap, 0.0F);
  refuses("hidden_activation", "gelu");
  refuses("use_bidirectional_attention", true);
}

TEST_F(NormFamilies, AGemma3TurnsWindowsByATableOfTheirOwn) {
  become("Gemma3ForCausalLM", "gemma3_text", {{"num_hidden_layers", 7}, {"head_dim", 32}});
  ImportedConfig imported = import();
  EXPECT_EQ(windows(), (std::vector<bool>{true, true, true, true, true, false, true}));
  ASSERT_EQ(imported.config.model.n_rope_tables, 2u);
  ASSERT_EQ(imported.rope.size(), 32u);
  EXPECT_EQ(imported.rope[1], static_cast<float>(1 / std::pow(1e6, 1.0 / 16)));
  EXPECT_EQ(imported.rope[17], static_cast<float>(1 / std::pow(1e4, 1.0 / 16)));
  EXPECT_EQ(kind(0).rope_table, 1);
  EXPECT_EQ(kind(5).rope_table, 0);
  EXPECT_TRUE(has(0, flag::kHeadNorms));
  // Older files.
  config_["sliding_window_pattern"] = 2;
  config_["rope_local_base_freq"] = 5000.0;
  config_["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  imported = import();
  EXPECT_EQ(windows(), (std::vector<bool>{true, false, true, false, true, false, true}));
  EXPECT_EQ(imported.rope[0], 0.125F);
  EXPECT_EQ(imported.rope[16], 1.0F);
  EXPECT_EQ(imported.rope[17], static_cast<float>(1 / std::pow(5e3, 1.0 / 16)));
  // Newer ones.
  config_["rope_scaling"] = nullptr;
  config_["rope_parameters"] = {
      {"full_attention", {{"rope_type", "linear"}, {"factor", 4.0}, {"rope_theta", 100.0}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 200.0}}}};
  imported = import();
  EXPECT_EQ(imported.rope[0], 0.25F);
  EXPECT_EQ(imported.rope[17], static_cast<float>(1 / std::pow(200, 1.0 / 16)));
  config_["rope_parameters"].erase("sliding_attention");
  expect_invalid({"rope_parameters", "sliding_attention is missing"}, [&] { (void)import(); });
  config_.erase("rope_parameters");
  refuses("rope_local_base_freq", 0);
  for (const char* letters : {"", "L", "GL", "LLGL", "LLg"}) {
    refuses("sliding_window_pattern", letters, {"letters L"});
  }
  refuses("sliding_window_pattern", 0, {"above zero"});
  config_["sliding_window_pattern"] = "LLG";
  EXPECT_EQ(windows(), (std::vector<bool>{true, true, false, true, true, false, true}));
  // The class has the key and attends without it.
  refuses("attn_logit_softcapping", 50.0, {"not supported for Gemma 3"});
  config_["final_logit_softcapping"] = 30.0;
  EXPECT_EQ(import().config.model.logits_cap, 30.0F);
}

TEST_F(NormFamilies, AnOlmo2HasNormsBehindItsBlocks) {
  become("Olmo2ForCausalLM", "olmo2", Json::object());
  EXPECT_EQ(kind(0).flags,
            flag::kMixerOutNorm | flag::kFfnOutNorm | flag::kGated | flag::kWholeNorms);
  EXPECT_EQ(kind(0).window, 0u);
  config_["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  expect_invalid({"layer_types"}, [&] { (void)import(); });
}

TEST_F(NormFamilies, AnOlmo3ScalesPositionsOfFullLayersAlone) {
  become("Olmo3ForCausalLM", "olmo3",
         {{"num_hidden_layers", 4},
          {"sliding_window", 8},
          {"rope_theta", 1e4},
          {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}});
  const ImportedConfig imported = import();
  EXPECT_EQ(windows(), (std::vector<bool>{true, true, true, false}));
  ASSERT_EQ(imported.config.model.n_rope_tables, 2u);
  EXPECT_EQ(imported.rope[0], 0.125F);
  EXPECT_EQ(imported.rope[8], 1.0F);
  config_["sliding_window"] = nullptr;
  EXPECT_EQ(import().config.model.n_rope_tables, 1u);
}

TEST_F(NormFamilies, AnExaone4sFullLayersStandStill) {
  become("Exaone4ForCausalLM", "exaone4", {{"num_hidden_layers", 4}, {"sliding_window", 8}});
  EXPECT_EQ(kind(0).rope_table, 0);
  EXPECT_EQ(kind(3).rope_table, format::kNoTable);
  EXPECT_EQ(kind(3).window, 0u);
  config_["sliding_window"] = nullptr;
  EXPECT_EQ(kind(3).rope_table, 0);
  EXPECT_EQ(kind(0).window, 0u);
}

TEST_F(NormFamilies, AMinistral3sQueriesGrow) {
  become("Ministral3ForCausalLM", "ministral3",
         {{"rope_parameters",
           {{"rope_type", "yarn"},
            {"factor", 4.0},
            {"rope_theta", 1e6},
            {"original_max_position_embeddings", 16},
            {"llama_4_scaling_beta", 0.1}}}});
  EXPECT_EQ(kind(0).query_growth, 0.1F);
  EXPECT_EQ(kind(0).query_growth_period, 16u);
  Json silent = config_;
  silent.erase("rope_parameters");
  std::swap(config_, silent);
  expect_invalid({"rope_parameters is missing"}, [&] { (void)import(); });
  std::swap(config_, silent);
  config_["rope_parameters"]["llama_4_scaling_beta"] = -1;
  expect_invalid({"llama_4_scaling_beta"}, [&] { (void)import(); });
  become("MistralForCausalLM", "mistral",
         {{"rope_parameters", {{"rope_type", "default"}, {"llama_4_scaling_beta", 0.1}}}});
  expect_invalid({"llama_4_scaling_beta"}, [&] { (void)import(); });
}

TEST_F(NormFamilies, AMiniCpmsMultipliersFollowFromItsDepthAndWidth) {
  become(
      "MiniCPMForCausalLM", "minicpm",
      {{"num_hidden_layers", 16}, {"scale_emb", 12}, {"scale_depth", 1.4}, {"dim_model_base", 16}});
  const format::ModelScalars model = import().config.model;
  EXPECT_EQ(model.embedding_multiplier, 12.0F);
  EXPECT_FLOAT_EQ(model.residual_multiplier, 0.35F);
  EXPECT_EQ(model.logits_divisor, 4.0F);
  EXPECT_EQ(kind(0).score_multiplier, 0.25F);
  refuses("dim_model_base", 0);
}

TEST_F(NormFamilies, ErnieAndBitNet) {
  become("Ernie4_5ForCausalLM", "ernie4_5", {{"head_dim", 16}});
  EXPECT_TRUE(import().form.has_pairs);
  EXPECT_TRUE(import().tied_embedding);
  refuses("use_bias", true);
  become("BitNetForCausalLM", "bitnet", Json::object());
  EXPECT_EQ(kind(0).activation, 3);
  EXPECT_TRUE(has(0, flag::kMixerInnerNorm | flag::kFfnInnerNorm));
}

TEST_F(NormFamilies, TheTextOfAModelThatSeesIsRead) {
  become("Gemma3ForCausalLM", "gemma3_text", {{"head_dim", 32}});
  Json text = config_;
  text.erase("architectures");
  config_ = {{"architectures", {"Gemma3ForConditionalGeneration"}},
             {"model_type", "gemma3"},
             {"eos_token_id", 7},
             {"vision_config", {{"hidden_size", 9}}},
             {"text_config", text}};
  const ImportedConfig imported = import();
  EXPECT_EQ(imported.architecture, "Gemma3ForCausalLM");
  EXPECT_EQ(imported.config.model.end_tokens[0], 7u);
  // null says as little as silence.
  config_["text_config"]["eos_token_id"] = nullptr;
  EXPECT_EQ(import().config.model.end_tokens[0], 7u);
  // As Google's files of 4B are.
  Json silent = config_;
  silent["text_config"] = {
      {"model_type", "gemma3_text"}, {"hidden_size", 2560},
      {"intermediate_size", 10240},  {"num_hidden_layers", 34},
      {"sliding_window", 1024},      {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}};
  std::swap(config_, silent);
  EXPECT_EQ(import().config.model.vocab_size, 262208u);
  EXPECT_EQ(kind(0).n_query_heads, 8);
  EXPECT_EQ(kind(0).n_key_heads, 4);
  EXPECT_EQ(kind(0).key_dim, 256);
  EXPECT_EQ(kind(0).window, 1024u);
  EXPECT_EQ(kind(0).score_multiplier, 1.0F / 16);
  std::swap(config_, silent);
  config_["text_config"]["hidden_size"] = 0;
  expect_invalid({"text_config.hidden_size"}, [&] { (void)import(); });
  config_["text_config"] = text;
  config_["text_config"]["rope_scaling"] = {{"rope_type", 3}};
  expect_invalid({"config.json: text_config.rope_scaling.rope_type "}, [&] { (void)import(); });
  config_["text_config"] = 3;
  expect_invalid({"text_config"}, [&] { (void)import(); });
  config_.erase("text_config");
  expect_invalid({"not supported"}, [&] { (void)import(); });
}

}  // namespace
}  // namespace cria::test
