// A config.json of a family, changed and imported.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "converter/config_import.h"
#include "converter/hugging_face_folder.h"
#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {

using converter::ImportedConfig;
using converter::Json;
using format::LayerKind;

class FamilyConfig : public ::testing::Test {
 protected:
  ImportedConfig import() {
    write_file(folder_ / "config.json", config_.dump());
    return converter::import_config(converter::HuggingFaceFolder(folder_.path()).read_config());
  }
  // The kind of a layer.
  LayerKind kind(size_t layer) {
    const ConfigParts parts = import().config;
    return parts.kinds.at(parts.layers.at(layer));
  }
  bool has(size_t layer, uint32_t flags) { return (kind(layer).flags & flags) == flags; }
  std::vector<bool> expert_layers() {
    const ConfigParts parts = import().config;
    std::vector<bool> layers;
    for (const uint8_t number : parts.layers) {
      layers.push_back(parts.kinds.at(number).feed_forward == 2);
    }
    return layers;
  }
  // With one key changed for the moment; words are of the line that refuses it.
  void refuses(const std::string& key, const Json& value, std::vector<std::string> words = {}) {
    SCOPED_TRACE(key + " = " + value.dump());
    const Json before = config_;
    config_[key] = value;
    words.push_back("config.json: " + key + " ");
    expect_invalid(words, [&] { (void)import(); });
    config_ = before;
  }
  void become(const char* class_name, const char* model_type, const Json& more) {
    config_ = {{"architectures", {class_name}},
               {"model_type", model_type},
               {"hidden_size", 64},
               {"intermediate_size", 96},
               {"num_attention_heads", 4},
               {"num_key_value_heads", 2},
               {"num_hidden_layers", 3},
               {"vocab_size", 50},
               {"max_position_embeddings", 128},
               {"rms_norm_eps", 1e-5}};
    config_.update(more);
  }
  void become_gpt2() {
    config_ = {{"architectures", {"GPT2LMHeadModel"}},
               {"model_type", "gpt2"},
               {"n_embd", 48},
               {"n_layer", 3},
               {"n_head", 3},
               {"vocab_size", 301}};
  }
  void become_qwen2_moe() { become("Qwen2MoeForCausalLM", "qwen2_moe", {{"num_experts", 8}}); }
  void become_qwen3_moe() {
    become("Qwen3MoeForCausalLM", "qwen3_moe", {{"num_experts", 16}, {"head_dim", 32}});
  }
  void become_deepseek(int version) {
    const std::string number = std::to_string(version);
    become(("DeepseekV" + number + "ForCausalLM").c_str(), ("deepseek_v" + number).c_str(),
           {{"num_key_value_heads", nullptr},
            {"kv_lora_rank", 24},
            {"qk_nope_head_dim", 16},
            {"qk_rope_head_dim", 8},
            {"v_head_dim", 12},
            {"moe_intermediate_size", 32},
            {"n_routed_experts", 16},
            {"num_experts_per_tok", 4}});
  }

  TempFolder folder_;
  Json config_;
};

}  // namespace cria::test
