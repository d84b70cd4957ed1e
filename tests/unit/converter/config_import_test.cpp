// config.json and generation_config.json: what is taken, what defaults to what, what is refused.
#include "converter/config_import.h"

#include <gtest/gtest.h>

#include <cmath>

#include "converter/hugging_face_folder.h"
#include "quant/model_layout.h"
#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {
namespace {

using converter::HuggingFaceFolder;
using converter::import_config;
using converter::ImportedConfig;

class ConfigImport : public ::testing::Test {
 protected:
  void SetUp() override { config_.erase("head_dim"); }
  ImportedConfig import() {
    write_file(folder_ / "config.json", config_.dump());
    return import_config(HuggingFaceFolder(folder_.path()).read_config());
  }
  void refuses(const std::vector<std::string>& parts) {
    std::vector<std::string> all = parts;
    all.push_back("config.json");
    expect_invalid(all, [&] { (void)import(); });
  }
  // The same, with one key changed for the moment.
  void refuses_value(const std::string& key, const Json& value) {
    SCOPED_TRACE(key + " = " + value.dump());
    const Json before = config_;
    config_[key] = value;
    refuses({key});
    config_ = before;
  }

  TempFolder folder_;
  Json config_ = TinyCheckpoint().config;
};

void make_mistral(Json* config) {
  (*config)["architectures"] = {"MistralForCausalLM"};
  (*config)["model_type"] = "mistral";
}

void make_granite(Json* config) {
  (*config)["architectures"] = {"GraniteForCausalLM"};
  (*config)["model_type"] = "granite";
}

// Above 8 the angles of the last positions pass what sines are exact for.
TEST_F(ConfigImport, FrequenciesPastTheFormatsAreRefused) {
  config_["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 0.125}};
  EXPECT_EQ(import().rope.inverse_frequencies[0], format::kMaxRopeFrequency);
  config_["rope_scaling"]["factor"] = 0.124;
  refuses({"rope_theta", "from 0 to 8"});
  config_["rope_scaling"]["factor"] = 1e-9;
  refuses({"rope_theta", "from 0 to 8"});
}

TEST_F(ConfigImport, ALlamaIsTakenAsItIs) {
  config_["rms_norm_eps"] = 1e-5;
  const ImportedConfig imported = import();
  const format::ModelConfig& m = imported.model;
  EXPECT_EQ(m.architecture, static_cast<uint32_t>(format::Architecture::kLlama));
  EXPECT_EQ(m.n_layers, 1u);
  EXPECT_EQ(m.d_model, 64u);
  EXPECT_EQ(m.n_heads, 4u);
  EXPECT_EQ(m.n_kv_heads, 2u);
  EXPECT_EQ(m.head_dim, 16u);
  EXPECT_EQ(m.d_ff, 96u);
  EXPECT_EQ(m.vocab_size, 50u);
  EXPECT_EQ(m.max_context, 128u);
  EXPECT_EQ(m.sliding_window, 0u);
  EXPECT_EQ(m.flags, 0u);
  EXPECT_EQ(m.rms_epsilon, 1e-5f);
  EXPECT_EQ(m.attention_multiplier, 0.25f);
  EXPECT_EQ(m.embedding_multiplier, 1.0f);
  EXPECT_EQ(m.residual_multiplier, 1.0f);
  EXPECT_EQ(m.logits_divisor, 1.0f);
  EXPECT_EQ(m.rope_factor, 1.0f);
  EXPECT_EQ(m.bos_token, 1u);
  ASSERT_EQ(m.n_end_tokens, 1u);
  EXPECT_EQ(m.end_tokens[0], 2u);
  EXPECT_FALSE(imported.tied_embedding);
  EXPECT_EQ(imported.rope.inverse_frequencies.size(), 8u);
}

TEST_F(ConfigImport, SilenceMeansTheArchitecturesDefaults) {
  for (const char* key :
       {"num_key_value_heads", "max_position_embeddings", "tie_word_embeddings"}) {
    config_.erase(key);
  }
  ImportedConfig imported = import();
  EXPECT_EQ(imported.model.n_kv_heads, 4u);
  EXPECT_EQ(imported.model.max_context, 2048u);
  EXPECT_EQ(imported.model.rms_epsilon, 1e-6f);
  make_mistral(&config_);
  config_["num_attention_heads"] = 16;
  imported = import();
  EXPECT_EQ(imported.model.n_kv_heads, 8u);
  EXPECT_EQ(imported.model.max_context, 131072u);
  EXPECT_EQ(imported.model.sliding_window, 4096u);
}

TEST_F(ConfigImport, NullMeansNone) {
  make_mistral(&config_);
  config_["num_key_value_heads"] = nullptr;
  config_["sliding_window"] = nullptr;
  config_["head_dim"] = nullptr;
  config_["rope_scaling"] = nullptr;
  config_["quantization_config"] = nullptr;
  const ImportedConfig imported = import();
  EXPECT_EQ(imported.model.n_kv_heads, 4u);
  EXPECT_EQ(imported.model.sliding_window, 0u);
  EXPECT_EQ(imported.model.head_dim, 16u);
}

TEST_F(ConfigImport, AHeadDimNeedNotDivideTheWidth) {
  config_["head_dim"] = 24;
  const ImportedConfig imported = import();
  EXPECT_EQ(imported.model.head_dim, 24u);
  EXPECT_EQ(imported.model.attention_multiplier, static_cast<float>(1 / std::sqrt(24.0)));
  EXPECT_EQ(imported.rope.inverse_frequencies.size(), 12u);
}

TEST_F(ConfigImport, OnlyMistralHasASlidingWindow) {
  config_["sliding_window"] = 8;
  EXPECT_EQ(import().model.sliding_window, 0u);
  make_mistral(&config_);
  EXPECT_EQ(import().model.sliding_window, 8u);
}

TEST_F(ConfigImport, GranitesMultipliersAreTaken) {
  make_granite(&config_);
  ImportedConfig imported = import();
  EXPECT_EQ(imported.model.attention_multiplier, 1.0f);
  config_["embedding_multiplier"] = 12.0;
  config_["residual_multiplier"] = 0.22;
  config_["attention_multiplier"] = 0.015625;
  config_["logits_scaling"] = 8;
  imported = import();
  EXPECT_EQ(imported.model.embedding_multiplier, 12.0f);
  EXPECT_EQ(imported.model.residual_multiplier, 0.22f);
  EXPECT_EQ(imported.model.attention_multiplier, 0.015625f);
  EXPECT_EQ(imported.model.logits_divisor, 8.0f);
}

TEST_F(ConfigImport, ALlamaIgnoresGranitesMultipliers) {
  config_["embedding_multiplier"] = 12.0;
  EXPECT_EQ(import().model.embedding_multiplier, 1.0f);
}

TEST_F(ConfigImport, BiasesAreFlags) {
  config_["attention_bias"] = true;
  EXPECT_EQ(import().model.flags, format::kQkvBias | format::kOutputBias);
  config_["mlp_bias"] = true;
  EXPECT_EQ(import().model.flags, format::kQkvBias | format::kOutputBias | format::kMlpBias);
  make_mistral(&config_);
  refuses({"attention_bias"});
}

TEST_F(ConfigImport, YarnsAttentionFactorGoesToTheModel) {
  config_["rope_parameters"] = {{"rope_type", "yarn"},
                                {"factor", 4.0},
                                {"rope_theta", 10000.0},
                                {"original_max_position_embeddings", 32}};
  EXPECT_EQ(import().model.rope_factor, static_cast<float>(0.1 * std::log(4.0) + 1));
}

TEST_F(ConfigImport, GenerationConfigKnowsTheEndTokens) {
  write_file(folder_ / "generation_config.json", R"({"eos_token_id":[7,9,7],"bos_token_id":3})");
  const ImportedConfig imported = import();
  ASSERT_EQ(imported.model.n_end_tokens, 2u);
  EXPECT_EQ(imported.model.end_tokens[0], 7u);
  EXPECT_EQ(imported.model.end_tokens[1], 9u);
  EXPECT_EQ(imported.model.bos_token, 3u);
}

TEST_F(ConfigImport, ASilentGenerationConfigLeavesItToConfig) {
  write_file(folder_ / "generation_config.json", R"({"eos_token_id":null})");
  config_["eos_token_id"] = {4, 5};
  const ImportedConfig imported = import();
  ASSERT_EQ(imported.model.n_end_tokens, 2u);
  EXPECT_EQ(imported.model.end_tokens[1], 5u);
  EXPECT_EQ(imported.model.bos_token, 1u);
}

TEST_F(ConfigImport, WithoutTokenIdsTheTokenizerIsAsked) {
  config_.erase("eos_token_id");
  config_.erase("bos_token_id");
  const ImportedConfig imported = import();
  EXPECT_FALSE(imported.has_end_tokens);
  EXPECT_FALSE(imported.has_bos);
  EXPECT_EQ(imported.model.n_end_tokens, 0u);
  EXPECT_EQ(imported.model.bos_token, format::kNone);
}

TEST_F(ConfigImport, MoreEndTokensThanAFileHoldsAreRefused) {
  Json ids = Json::array();
  for (uint32_t i = 0; i <= format::kMaxEndTokens; ++i) ids.push_back(i);
  config_["eos_token_id"] = ids;
  expect_invalid({"eos_token_id", "17", "16"}, [&] { (void)import(); });
}

TEST_F(ConfigImport, OtherArchitecturesAreRefusedByName) {
  const std::pair<const char*, const char*> others[] = {{"GPT2LMHeadModel", "gpt2"},
                                                        {"MixtralForCausalLM", "mixtral"},
                                                        {"DeepseekV3ForCausalLM", "deepseek_v3"},
                                                        {"Qwen2ForCausalLM", "qwen2"},
                                                        {"Qwen3ForCausalLM", "qwen3"},
                                                        {"Gemma2ForCausalLM", "gemma2"},
                                                        {"GraniteMoeForCausalLM", "granitemoe"},
                                                        {"PhiForCausalLM", "phi"},
                                                        {"LlamaForSequenceClassification", "llama"},
                                                        {"LlamaForCausalLM", "internlm"}};
  for (const auto& [class_name, model_type] : others) {
    config_["architectures"] = {class_name};
    config_["model_type"] = model_type;
    refuses({class_name, model_type, "not supported"});
    config_.erase("model_type");
    if (std::string(class_name) != "LlamaForCausalLM") refuses({class_name, "not supported"});
  }
}

TEST_F(ConfigImport, EitherNameOfTheArchitectureSuffices) {
  config_.erase("architectures");
  EXPECT_EQ(import().architecture, "LlamaForCausalLM");
  config_["model_type"] = "gpt2";
  refuses({"model_type", "gpt2"});
  config_.erase("model_type");
  refuses({"architectures", "missing"});
  config_["architectures"] = {"LlamaForCausalLM"};
  EXPECT_EQ(import().architecture, "LlamaForCausalLM");
}

TEST_F(ConfigImport, SettingsOfOtherArchitecturesAreRefusedByName) {
  refuses_value("num_local_experts", 8);
  refuses_value("kv_lora_rank", 512);
  refuses_value("attn_logit_softcapping", 50.0);
  refuses_value("use_qk_norm", true);
  refuses_value("quantization_config", {{"quant_method", "gptq"}});
  refuses_value("hidden_act", "gelu");
  refuses_value("partial_rotary_factor", 0.5);
  config_["num_local_experts"] = 0;
  config_["use_qk_norm"] = false;
  config_["pretraining_tp"] = 2;
  config_["attention_dropout"] = 0.1;
  EXPECT_NO_THROW((void)import());
}

TEST_F(ConfigImport, WrongTypesNameTheKey) {
  refuses_value("hidden_size", "64");
  refuses_value("hidden_size", -64);
  refuses_value("hidden_size", 64.5);
  refuses_value("num_hidden_layers", true);
  refuses_value("rms_norm_eps", "1e-5");
  refuses_value("tie_word_embeddings", 1);
  refuses_value("attention_bias", "yes");
  refuses_value("architectures", "LlamaForCausalLM");
  refuses_value("model_type", 5);
  refuses_value("rope_theta", "10000");
  refuses_value("head_dim", 15);
  refuses_value("head_dim", 0);
  refuses_value("num_attention_heads", 0);
  // These are read from generation_config.json too, so that the line names the key.
  config_["bos_token_id"] = "x";
  expect_invalid({"bos_token_id"}, [&] { (void)import(); });
}

TEST_F(ConfigImport, FrequenciesThatAreNoNumbersAreRefused) {
  // The logarithm of theta divides.
  config_["rope_scaling"] = {
      {"type", "yarn"}, {"factor", 4}, {"beta_fast", 1}, {"original_max_position_embeddings", 128}};
  config_["rope_theta"] = 1;
  refuses({"rope_theta", "frequencies"});
}

TEST_F(ConfigImport, MissingSizesNameTheKey) {
  for (const std::string key : {"hidden_size", "intermediate_size", "num_attention_heads",
                                "num_hidden_layers", "vocab_size"}) {
    const Json before = config_;
    config_.erase(key);
    refuses({key, "missing"});
    config_ = before;
  }
  config_["hidden_size"] = 66;
  refuses({"hidden_size", "head_dim"});
}

TEST_F(ConfigImport, AFolderWithoutConfigSaysWhatItWants) {
  expect_invalid({"config.json", "Hugging Face"},
                 [&] { (void)import_config(HuggingFaceFolder(folder_.path()).read_config()); });
  write_file(folder_ / "config.json", "{");
  expect_invalid({"config.json", "JSON"},
                 [&] { (void)import_config(HuggingFaceFolder(folder_.path()).read_config()); });
  write_file(folder_ / "config.json", "[]");
  expect_invalid({"config.json", "object"},
                 [&] { (void)import_config(HuggingFaceFolder(folder_.path()).read_config()); });
}

}  // namespace
}  // namespace cria::test
