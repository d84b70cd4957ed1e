// config.json and generation_config.json: what is taken, what defaults to what, what is refused.
#include "converter/config_import.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "converter/architecture_table.h"
#include "converter/hugging_face_folder.h"
#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {
namespace {

using converter::HuggingFaceFolder;
using converter::import_config;
using converter::ImportedConfig;
using converter::Json;
namespace flag = format::flag;

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

  // Of the first layer, besides those of a Llama.
  uint32_t flags() { return import().config.kinds[0].flags ^ converter::kLlamaFlags; }
  // What each layer has; also expects that no two kinds are alike.
  template <typename Field>
  std::vector<uint32_t> of_layers(Field format::LayerKind::*field) {
    const ConfigParts config = import().config;
    for (size_t i = 1; i < config.kinds.size(); ++i) {
      EXPECT_NE(std::memcmp(&config.kinds[i - 1], &config.kinds[i], sizeof config.kinds[i]), 0);
    }
    std::vector<uint32_t> values;
    for (const uint8_t kind : config.layers) values.push_back(config.kinds.at(kind).*field);
    return values;
  }

  void become(const char* class_name, const char* model_type) {
    config_["architectures"] = {class_name};
    config_["model_type"] = model_type;
  }

  TempFolder folder_;
  Json config_ = Json::parse(TinyCheckpoint().config_text());
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
  EXPECT_EQ(import().rope[0], format::kMaxRopeFrequency);
  config_["rope_scaling"]["factor"] = 0.124;
  refuses({"rope_theta", "from 0 to 8"});
  config_["rope_scaling"]["factor"] = 1e-9;
  refuses({"rope_theta", "from 0 to 8"});
}

TEST_F(ConfigImport, ALlamaIsTakenAsItIs) {
  config_["rms_norm_eps"] = 1e-5;
  const ImportedConfig imported = import();
  const format::ModelScalars& m = imported.config.model;
  ASSERT_EQ(imported.config.kinds.size(), 1u);
  const format::LayerKind& kind = imported.config.kinds[0];
  EXPECT_EQ(m.architecture, static_cast<uint32_t>(format::Architecture::kLlama));
  EXPECT_EQ(imported.config.layers, std::vector<uint8_t>{0});
  EXPECT_EQ(m.d_model, 64u);
  EXPECT_EQ(kind.mixer, static_cast<uint8_t>(format::Mixer::kAttention));
  EXPECT_EQ(kind.feed_forward, static_cast<uint8_t>(format::FeedForward::kDense));
  EXPECT_EQ(kind.n_query_heads, 4u);
  EXPECT_EQ(kind.n_key_heads, 2u);
  EXPECT_EQ(kind.n_value_heads, 2u);
  EXPECT_EQ(kind.key_dim, 16u);
  EXPECT_EQ(kind.value_dim, 16u);
  EXPECT_EQ(kind.d_ff, 96u);
  EXPECT_EQ(m.vocab_size, 50u);
  EXPECT_EQ(m.max_context, 128u);
  EXPECT_EQ(kind.window, 0u);
  EXPECT_EQ(kind.flags, converter::kLlamaFlags);
  EXPECT_EQ(m.flags, 0u);
  EXPECT_EQ(m.norm_epsilon, 1e-5f);
  EXPECT_EQ(kind.norm_epsilon, 1e-5f);
  EXPECT_EQ(kind.inner_epsilon, 1e-5f);
  EXPECT_EQ(kind.score_multiplier, 0.25f);
  EXPECT_EQ(m.embedding_multiplier, 1.0f);
  EXPECT_EQ(m.residual_multiplier, 1.0f);
  EXPECT_EQ(m.logits_divisor, 1.0f);
  ASSERT_EQ(m.n_rope_tables, 1u);
  EXPECT_EQ(m.rope_tables[0].n_pairs, 8u);
  EXPECT_EQ(m.rope_tables[0].factor, 1.0f);
  EXPECT_EQ(kind.rope_table, 0u);
  EXPECT_EQ(m.bos_token, 1u);
  ASSERT_EQ(m.n_end_tokens, 1u);
  EXPECT_EQ(m.end_tokens[0], 2u);
  EXPECT_FALSE(imported.tied_embedding);
  EXPECT_EQ(imported.rope.size(), 8u);
}

TEST_F(ConfigImport, SilenceMeansTheArchitecturesDefaults) {
  for (const char* key :
       {"num_key_value_heads", "max_position_embeddings", "tie_word_embeddings"}) {
    config_.erase(key);
  }
  ImportedConfig imported = import();
  EXPECT_EQ(imported.config.kinds[0].n_key_heads, 4u);
  EXPECT_EQ(imported.config.model.max_context, 2048u);
  EXPECT_EQ(imported.config.model.norm_epsilon, 1e-6f);
  make_mistral(&config_);
  config_["num_attention_heads"] = 16;
  imported = import();
  EXPECT_EQ(imported.config.kinds[0].n_key_heads, 8u);
  EXPECT_EQ(imported.config.model.max_context, 131072u);
  EXPECT_EQ(imported.config.kinds[0].window, 4096u);
}

TEST_F(ConfigImport, NullMeansNone) {
  make_mistral(&config_);
  config_["num_key_value_heads"] = nullptr;
  config_["sliding_window"] = nullptr;
  config_["head_dim"] = nullptr;
  config_["rope_scaling"] = nullptr;
  config_["quantization_config"] = nullptr;
  const ImportedConfig imported = import();
  EXPECT_EQ(imported.config.kinds[0].n_key_heads, 4u);
  EXPECT_EQ(imported.config.kinds[0].window, 0u);
  EXPECT_EQ(imported.config.kinds[0].key_dim, 16u);
}

TEST_F(ConfigImport, AHeadDimNeedNotDivideTheWidth) {
  config_["head_dim"] = 24;
  const ImportedConfig imported = import();
  EXPECT_EQ(imported.config.kinds[0].key_dim, 24u);
  EXPECT_EQ(imported.config.kinds[0].score_multiplier, static_cast<float>(1 / std::sqrt(24.0)));
  EXPECT_EQ(imported.rope.size(), 12u);
}

TEST_F(ConfigImport, OnlyMistralHasASlidingWindow) {
  config_["sliding_window"] = 8;
  EXPECT_EQ(import().config.kinds[0].window, 0u);
  make_mistral(&config_);
  EXPECT_EQ(import().config.kinds[0].window, 8u);
  const size_t n_layers = import().config.layers.size();
  config_["layer_types"] = std::vector<std::string>(n_layers, "sliding_attention");
  EXPECT_EQ(import().config.kinds[0].window, 8u);
  config_["layer_types"] = std::vector<std::string>(n_layers, "full_attention");
  refuses({"layer_types names no sliding_attention", "8 positions"});
  config_["sliding_window"] = nullptr;
  EXPECT_EQ(import().config.kinds[0].window, 0u);
  config_["layer_types"] = std::vector<std::string>(n_layers, "sliding_attention");
  refuses({"sliding_window gives no sliding window"});
}

TEST_F(ConfigImport, GranitesMultipliersAreTaken) {
  make_granite(&config_);
  ImportedConfig imported = import();
  EXPECT_EQ(imported.config.kinds[0].score_multiplier, 1.0f);
  config_["embedding_multiplier"] = 12.0;
  config_["residual_multiplier"] = 0.22;
  config_["attention_multiplier"] = 0.015625;
  config_["logits_scaling"] = 8;
  imported = import();
  EXPECT_EQ(imported.config.model.embedding_multiplier, 12.0f);
  EXPECT_EQ(imported.config.model.residual_multiplier, 0.22f);
  EXPECT_EQ(imported.config.kinds[0].score_multiplier, 0.015625f);
  EXPECT_EQ(imported.config.model.logits_divisor, 8.0f);
}

TEST_F(ConfigImport, ALlamaIgnoresGranitesMultipliers) {
  config_["embedding_multiplier"] = 12.0;
  EXPECT_EQ(import().config.model.embedding_multiplier, 1.0f);
}

TEST_F(ConfigImport, BiasesAreFlags) {
  config_["attention_bias"] = true;
  EXPECT_EQ(flags(), flag::kMixerBias | flag::kOutputBias);
  config_["mlp_bias"] = true;
  EXPECT_EQ(flags(), flag::kMixerBias | flag::kOutputBias | flag::kFfnBias);
  make_mistral(&config_);
  refuses({"attention_bias"});
}

TEST_F(ConfigImport, YarnsAttentionFactorGoesToTheModel) {
  config_["rope_parameters"] = {{"rope_type", "yarn"},
                                {"factor", 4.0},
                                {"rope_theta", 10000.0},
                                {"original_max_position_embeddings", 32}};
  EXPECT_EQ(import().config.model.rope_tables[0].factor,
            static_cast<float>(0.1 * std::log(4.0) + 1));
}

TEST_F(ConfigImport, GenerationConfigKnowsTheEndTokens) {
  write_file(folder_ / "generation_config.json", R"({"eos_token_id":[7,9,7],"bos_token_id":3})");
  const ImportedConfig imported = import();
  ASSERT_EQ(imported.config.model.n_end_tokens, 2u);
  EXPECT_EQ(imported.config.model.end_tokens[0], 7u);
  EXPECT_EQ(imported.config.model.end_tokens[1], 9u);
  EXPECT_EQ(imported.config.model.bos_token, 3u);
}

TEST_F(ConfigImport, ASilentGenerationConfigLeavesItToConfig) {
  write_file(folder_ / "generation_config.json", R"({"eos_token_id":null})");
  config_["eos_token_id"] = {4, 5};
  const ImportedConfig imported = import();
  ASSERT_EQ(imported.config.model.n_end_tokens, 2u);
  EXPECT_EQ(imported.config.model.end_tokens[1], 5u);
  EXPECT_EQ(imported.config.model.bos_token, 1u);
}

TEST_F(ConfigImport, WithoutTokenIdsTheTokenizerIsAsked) {
  config_.erase("eos_token_id");
  config_.erase("bos_token_id");
  const ImportedConfig imported = import();
  EXPECT_FALSE(imported.has_end_tokens);
  EXPECT_FALSE(imported.has_bos);
  EXPECT_EQ(imported.config.model.n_end_tokens, 0u);
  EXPECT_EQ(imported.config.model.bos_token, format::kNone);
}

TEST_F(ConfigImport, MoreEndTokensThanAFileHoldsAreRefused) {
  Json ids = Json::array();
  for (uint32_t i = 0; i <= format::kMaxEndTokens; ++i) ids.push_back(i);
  config_["eos_token_id"] = ids;
  expect_invalid({"eos_token_id", "17", "16"}, [&] { (void)import(); });
}

TEST_F(ConfigImport, OtherArchitecturesAreRefusedByName) {
  const std::pair<const char*, const char*> others[] = {
      {"DeepseekForCausalLM", "deepseek"},
      {"PhiMoEForCausalLM", "phimoe"},
      {"GptOssForCausalLM", "gpt_oss"},
      {"Gemma3nForCausalLM", "gemma3n_text"},
      {"Lfm2VlForConditionalGeneration", "lfm2_vl"},
      {"OlmoForCausalLM", "olmo"},
      {"StableLmForCausalLM", "stablelm"},
      {"GPTNeoXForCausalLM", "gpt_neox"},
      {"CohereForCausalLM", "cohere"},
      {"MambaForCausalLM", "mamba"},
      {"Llama4ForConditionalGeneration", "llama4"},
      {"Mistral3ForConditionalGeneration", "mistral3"},
      {"GemmaForCausalLM", "gemma"},
      {"PhiForCausalLM", "phi"},
      {"LlamaForSequenceClassification", "llama"},
      {"LlamaForCausalLM", "internlm"}};
  for (const auto& [class_name, model_type] : others) {
    config_["architectures"] = {class_name};
    config_["model_type"] = model_type;
    refuses({class_name, model_type, "not supported", "Llama, Mistral, Granite, Qwen2, Qwen3"});
    config_.erase("model_type");
    if (std::string(class_name) != "LlamaForCausalLM") refuses({class_name, "not supported"});
  }
}

TEST_F(ConfigImport, EitherNameOfTheArchitectureSuffices) {
  config_.erase("architectures");
  EXPECT_EQ(import().architecture, "LlamaForCausalLM");
  config_["model_type"] = "gpt_neox";
  refuses({"model_type", "gpt_neox"});
  config_.erase("model_type");
  refuses({"architectures", "missing", "this converter reads Llama, Mistral"});
  config_["architectures"] = {"LlamaForCausalLM"};
  EXPECT_EQ(import().architecture, "LlamaForCausalLM");
}

TEST_F(ConfigImport, SettingsOfOtherArchitecturesAreRefusedByName) {
  refuses_value("num_local_experts", 8);
  refuses_value("kv_lora_rank", 512);
  refuses_value("attn_logit_softcapping", 50.0);
  refuses_value("use_qk_norm", true);
  refuses_value("quantization_config", {{"quant_method", "gptq"}});
  for (const char* key : {"quantization", "compression_config"}) refuses_value(key, {{"bits", 4}});
  for (const char* key : {"hidden_act", "hidden_activation"}) refuses_value(key, "gelu");
  for (const char* key : {"attention_chunk_size", "moe_num_experts"}) refuses_value(key, 8);
  for (const char* key : {"alibi", "use_bidirectional_attention", "is_encoder_decoder"}) {
    refuses_value(key, true);
    config_[key] = false;
  }
  refuses_value("partial_rotary_factor", 0.5);
  config_["num_local_experts"] = 0;
  config_["use_qk_norm"] = false;
  config_["pretraining_tp"] = 2;
  config_["attention_dropout"] = 0.1;
  EXPECT_NO_THROW((void)import());
}

TEST_F(ConfigImport, WhatIsNotReadIsNamedWithTheListOfWhatIs) {
  const std::string list = "this converter reads Llama, Mistral";
  for (const char* type :
       {"phimoe", "gpt_oss", "deepseek", "mamba", "falcon_h1", "gemma3n", "lfm2_vl", "olmo",
        "cohere", "gpt_neox", "phi", "stablelm", "qwen2_vl", "never_heard_of"}) {
    become((std::string(type) + "ForCausalLM").c_str(), type);
    refuses({type, "is not supported", list});
    config_.erase("architectures");
    refuses({type, "is not supported", list});
  }
  become("LlamaForCausalLM", "llama");
  refuses_value("num_local_experts", 8);
  config_["num_local_experts"] = 8;
  refuses({"num_local_experts is not supported for Llama", list});
  config_.erase("num_local_experts");
  config_["layer_types"] =
      std::vector<std::string>(config_["num_hidden_layers"].get<size_t>(), "mamba");
  refuses({"layer_types has 'mamba'", list});
}

// The families that are no architectures of their own, and those that are: numbers of their public
// configs, but for the sizes.
TEST_F(ConfigImport, FamiliesThatAreLlamasAreTakenAsSuch) {
  struct Family {
    const char* name;
    const char* keys;
  };
  constexpr Family kFamilies[] = {
      {"Falcon3-1B", R"({"head_dim":256,"num_attention_heads":8,"num_key_value_heads":4,
          "rope_theta":1000042,"activation":"swiglu","attention_bias":false,"mlp_bias":false,
          "max_position_embeddings":4096})"},
      {"Yi-1.5-6B", R"({"rope_theta":5000000.0,"rope_scaling":null,"pad_token_id":0,
          "pretraining_tp":1,"attention_bias":false})"},
      {"DeepSeek-R1-Distill-Llama-8B", R"({"rope_theta":500000.0,"rope_scaling":{"factor":8.0,
          "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192,
          "rope_type":"llama3"},"max_position_embeddings":131072})"},
      {"TinyLlama-1.1B", R"({"rope_theta":10000.0,"rope_scaling":null,"pretraining_tp":1})"},
      {"SmolLM2-135M", R"({"rope_theta":100000,"rope_interleaved":false,"is_llama_config":true,
          "tie_word_embeddings":true,"max_position_embeddings":8192})"},
      {"Llama-3.2-1B", R"({"rope_theta":500000.0,"rope_scaling":{"factor":32.0,
          "low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":8192,
          "rope_type":"llama3"},"tie_word_embeddings":true,"max_position_embeddings":131072})"},
  };
  const Json before = config_;
  for (const Family& family : kFamilies) {
    SCOPED_TRACE(family.name);
    config_ = before;
    config_.update(Json::parse(family.keys));
    const ImportedConfig imported = import();
    EXPECT_EQ(imported.architecture, "LlamaForCausalLM");
    ASSERT_EQ(imported.config.kinds.size(), 1u);
    EXPECT_EQ(imported.config.kinds[0].flags, converter::kLlamaFlags);
    EXPECT_EQ(imported.config.kinds[0].rope_table, 0u);
    EXPECT_EQ(2 * imported.config.model.rope_tables[0].n_pairs, imported.config.kinds[0].key_dim);
    EXPECT_EQ(imported.config.model.rope_tables[0].original_context, 0u);
  }
}

TEST_F(ConfigImport, AQwen2HasBiasesOnQueriesKeysAndValues) {
  become("Qwen2ForCausalLM", "qwen2");
  EXPECT_EQ(flags(), flag::kMixerBias);
  EXPECT_EQ(import().config.model.architecture,
            static_cast<uint32_t>(format::Architecture::kQwen2));
  refuses_value("mlp_bias", true);
  // DeepSeek-R1-Distill-Qwen-1.5B.
  config_["use_sliding_window"] = false;
  config_["sliding_window"] = 4096;
  config_["max_window_layers"] = 21;
  config_["use_mrope"] = false;
  EXPECT_EQ(import().config.kinds[0].window, 0u);
}

TEST_F(ConfigImport, AQwensWindowIsThatOfSomeLayers) {
  using List = std::vector<uint32_t>;
  const auto windows = [this] { return of_layers(&format::LayerKind::window); };
  become("Qwen2ForCausalLM", "qwen2");
  config_["num_hidden_layers"] = 3;
  config_["use_sliding_window"] = true;
  config_["sliding_window"] = 16;
  EXPECT_EQ(windows(), (List{0, 0, 0})) << "from layer 28 on";
  config_["max_window_layers"] = 3;
  EXPECT_EQ(windows(), (List{0, 0, 0}));
  config_["max_window_layers"] = 0;
  EXPECT_EQ(windows(), (List{16, 16, 16}));
  config_["max_window_layers"] = 1;
  EXPECT_EQ(windows(), (List{0, 16, 16}));
  config_["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(windows(), (List{16, 0, 16}));
  EXPECT_EQ(import().config.layers, (std::vector<uint8_t>{0, 1, 0}));
  config_["use_sliding_window"] = false;
  refuses({"use_sliding_window gives no sliding window", "2 of layer_types are sliding_attention"});
  config_["use_sliding_window"] = true;
  config_["sliding_window"] = nullptr;
  refuses({"sliding_window gives no sliding window", "2 of layer_types"});
  config_["layer_types"] = {"full_attention", "full_attention", "full_attention"};
  EXPECT_EQ(windows(), (List{0, 0, 0}));
  config_["sliding_window"] = format::kMaxContext;
  EXPECT_EQ(windows(), (List{0, 0, 0}));
  config_["sliding_window"] = format::kMaxContext + 1;
  refuses({"sliding_window must be from 0 to 16777216"});
  config_["sliding_window"] = 16;
  config_["layer_types"] = {"full_attention"};
  refuses({"layer_types", "1 layers", "3"});
  config_["layer_types"] = {"full_attention", "linear_attention", "full_attention"};
  refuses({"layer_types", "linear_attention"});
}

// Theirs is the library's word for all layers.
TEST_F(ConfigImport, AMistralsWindowIsThatOfAllLayersOrOfNone) {
  make_mistral(&config_);
  config_["num_hidden_layers"] = 3;
  config_["sliding_window"] = 16;
  config_["layer_types"] = {"sliding_attention", "full_attention", "full_attention"};
  refuses({"layer_types names sliding_attention for 1 of 3 layers"});
}

TEST_F(ConfigImport, AQwen3NormalizesItsHeads) {
  become("Qwen3ForCausalLM", "qwen3");
  config_["head_dim"] = 32;
  EXPECT_EQ(flags(), flag::kHeadNorms);
  config_["attention_bias"] = true;
  EXPECT_EQ(flags(), flag::kHeadNorms | flag::kMixerBias | flag::kOutputBias);
  config_.erase("head_dim");
  EXPECT_EQ(import().config.kinds[0].key_dim, 128u);
}

TEST_F(ConfigImport, ASmolLm3NamesItsLayersWithoutRope) {
  become("SmolLM3ForCausalLM", "smollm3");
  config_["num_hidden_layers"] = 6;
  const auto expect = [&](const std::vector<uint8_t>& has_rope) {
    std::vector<uint32_t> tables;
    for (const uint8_t has : has_rope) tables.push_back(has != 0 ? 0 : format::kNoTable);
    EXPECT_EQ(of_layers(&format::LayerKind::rope_table), tables);
    EXPECT_EQ(import().config.model.n_rope_tables,
              std::count(tables.begin(), tables.end(), 0u) > 0);
  };
  expect({1, 1, 1, 0, 1, 1});
  EXPECT_EQ(import().config.layers, (std::vector<uint8_t>{0, 0, 0, 1, 0, 0}));
  config_["no_rope_layer_interval"] = 2;
  expect({1, 0, 1, 0, 1, 0});
  config_["no_rope_layer_interval"] = 1;
  expect({0, 0, 0, 0, 0, 0});
  config_["no_rope_layer_interval"] = 7;
  expect({1, 1, 1, 1, 1, 1});
  config_["no_rope_layer_interval"] = 0;
  refuses({"no_rope_layer_interval"});
  config_["no_rope_layers"] = {0, 0, 1, 1, 0, 1};
  expect({0, 0, 1, 1, 0, 1});
  EXPECT_EQ(import().config.layers, (std::vector<uint8_t>{0, 0, 1, 1, 0, 1}));
  config_["no_rope_layers"] = {1, 0, 1, 1, 1};
  refuses({"no_rope_layers", "5 layers", "6"});
  config_["no_rope_layers"] = {1, 1, 1, 1, 1, 1};
  expect({1, 1, 1, 1, 1, 1});
}

TEST_F(ConfigImport, ASmolLm3HasItsWindowWhereItHasNoRope) {
  using List = std::vector<uint32_t>;
  const auto windows = [this] { return of_layers(&format::LayerKind::window); };
  become("SmolLM3ForCausalLM", "smollm3");
  config_["num_hidden_layers"] = 6;
  config_["no_rope_layers"] = {1, 1, 1, 1, 1, 1};
  config_["use_sliding_window"] = true;
  config_["sliding_window"] = 16;
  EXPECT_EQ(windows(), List(6)) << "no layer is without RoPE";
  config_["no_rope_layers"] = {1, 1, 1, 0, 1, 1};
  EXPECT_EQ(windows(), (List{0, 0, 0, 16, 0, 0}));
  EXPECT_EQ(import().config.kinds.size(), 2u);
  // Said layer by layer, it counts; but not against the switch.
  config_["layer_types"] = {"sliding_attention", "full_attention", "full_attention",
                            "full_attention",    "full_attention", "sliding_attention"};
  EXPECT_EQ(windows(), (List{16, 0, 0, 0, 0, 16}));
  EXPECT_EQ(import().config.layers, (std::vector<uint8_t>{0, 1, 1, 2, 1, 0}));
  config_["use_sliding_window"] = false;
  refuses({"use_sliding_window gives no sliding window", "2 of layer_types"});
  config_.erase("use_sliding_window");
  refuses({"use_sliding_window gives no sliding window", "2 of layer_types"});
  config_["layer_types"] = std::vector<std::string>(6, "full_attention");
  EXPECT_EQ(windows(), List(6));
}

TEST_F(ConfigImport, ASmolLm3IsTiedUnlessItSaysOtherwise) {
  become("SmolLM3ForCausalLM", "smollm3");
  config_.erase("tie_word_embeddings");
  EXPECT_TRUE(import().tied_embedding);
  config_["tie_word_embeddings"] = false;
  EXPECT_FALSE(import().tied_embedding);
}

TEST_F(ConfigImport, APhi3HasAWindowAndMayTurnAPartOfAHead) {
  become("Phi3ForCausalLM", "phi3");
  config_["sliding_window"] = 100;
  config_["partial_rotary_factor"] = 0.75;
  const ImportedConfig imported = import();
  EXPECT_EQ(imported.config.kinds[0].window, 100u);
  EXPECT_EQ(imported.config.model.rope_tables[0].n_pairs, 6u);
  EXPECT_EQ(imported.rope.size(), 6u);
  EXPECT_EQ(imported.config.kinds[0].score_multiplier, 0.25f) << "of all 16 elements";
  config_["attention_bias"] = false;
  config_["lm_head_bias"] = false;
  EXPECT_NO_THROW((void)import());
  refuses_value("attention_bias", true);
  refuses_value("lm_head_bias", true);
}

TEST_F(ConfigImport, LongRopeIsForContextsPastTheOriginal) {
  become("Phi3ForCausalLM", "phi3");
  config_["rope_scaling"] = {{"type", "su"},
                             {"short_factor", std::vector<double>(8, 1.0)},
                             {"long_factor", std::vector<double>(8, 2.0)}};
  config_["original_max_position_embeddings"] = 32;
  ImportedConfig imported = import();
  ASSERT_EQ(imported.rope.size(), 16u);
  EXPECT_EQ(imported.config.model.rope_tables[0].original_context, 32u);
  EXPECT_EQ(imported.rope[0], 1.0f);
  EXPECT_EQ(imported.rope[8], 0.5f);
  config_["original_max_position_embeddings"] = 128;
  imported = import();
  EXPECT_EQ(imported.rope.size(), 8u) << "no context is longer";
  EXPECT_EQ(imported.config.model.rope_tables[0].original_context, 0u);
}

TEST_F(ConfigImport, AGraniteHybridSaysWhatItsLayersAre) {
  become("GraniteMoeHybridForCausalLM", "granitemoehybrid");
  config_["num_local_experts"] = 0;
  config_["num_experts_per_tok"] = 0;
  config_["shared_intermediate_size"] = 48;
  config_["layer_types"] = {"attention"};
  config_["position_embedding_type"] = "rope";
  config_["attention_multiplier"] = 0.5;
  const format::LayerKind kind = import().config.kinds[0];
  EXPECT_EQ(kind.d_ff, 48u);
  EXPECT_EQ(kind.score_multiplier, 0.5f);
  EXPECT_EQ(kind.rope_table, 0u);
  refuses_value("num_local_experts", nullptr);
  refuses_value("layer_types", {"conv"});
  refuses_value("position_embedding_type", "alibi");
  config_["position_embedding_type"] = nullptr;
  EXPECT_EQ(import().config.kinds[0].rope_table, format::kNoTable);
  EXPECT_EQ(import().config.model.n_rope_tables, 0u);
  EXPECT_TRUE(import().rope.empty());
  config_["position_embedding_type"] = "nope";
  config_["layers_block_type"] = config_["layer_types"];
  config_.erase("layer_types");
  EXPECT_EQ(import().config.kinds[0].rope_table, format::kNoTable);
  config_.erase("layers_block_type");
  refuses({"layer_types", "missing"});
}

TEST(Architectures, TheTableIsALineEach) {
  const std::string text = converter::architectures_text();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 31);
  for (const char* part : {"Qwen2ForCausalLM", "Granite 4", "Falcon3", "SmolLM3"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(converter::architecture_row(format::Architecture::kGraniteHybrid).model_type,
            std::string("granitemoehybrid"));
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
