#include "tests/support/tiny_checkpoint.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace cria::test {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr uint32_t kWidth = 32;
constexpr uint32_t kKvWidth = 16;
constexpr uint32_t kFfnWidth = 96;
constexpr uint32_t kLayers = 2;
constexpr uint32_t kLayersOfLfm2 = 5;
constexpr uint32_t kMerges = 38;
constexpr uint32_t kVocab = 256 + kMerges + 6;

// The printable characters that stand for bytes in byte-level BPE: bytes 0x21..0x7e, 0xa1..0xac and
// 0xae..0xff for themselves, the others by U+0100 onwards.
std::string character_of(unsigned byte, unsigned* n_unprintable) {
  const bool printable =
      (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  const unsigned point = printable ? byte : 0x100 + (*n_unprintable)++;
  if (point < 0x80) return {static_cast<char>(point)};
  return {static_cast<char>(0xc0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3f))};
}

Json tokenizer_json() {
  Json vocab = Json::object();
  unsigned n_unprintable = 0;
  for (unsigned byte = 0; byte < 256; ++byte) vocab[character_of(byte, &n_unprintable)] = byte;
  Json merges = Json::array();
  const std::string letters = "etaoinshrdlucmfwypvbg";
  for (size_t a = 0; merges.size() < kMerges; ++a) {
    for (size_t b = 0; b < 4 && merges.size() < kMerges; ++b) {
      const std::string left(1, letters[a]);
      const std::string right(1, letters[(a + b + 1) % letters.size()]);
      vocab[left + right] = 256 + merges.size();
      merges.push_back(left + " " + right);
    }
  }
  const char* specials[] = {"<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>",
                            "<|end_header_id|>", "<|eot_id|>",      "<|pad|>"};
  Json added = Json::array();
  uint32_t id = 256 + kMerges;
  for (const char* text : specials) {
    added.push_back({{"id", id++},
                     {"content", text},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return {{"version", "1.0"},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"trim_offsets", true},
            {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "ByteLevel"},
            {"add_prefix_space", true},
            {"trim_offsets", true},
            {"use_regex", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", vocab},
            {"merges", merges}}}};
}

Json tokenizer_config_json() {
  return {
      {"bos_token", "<|begin_of_text|>"},
      {"eos_token", "<|eot_id|>"},
      {"chat_template",
       "{{- bos_token }}{%- for message in messages %}{{- '<|start_header_id|>' + message['role'] "
       "+ '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}{%- endfor %}"
       "{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' "
       "}}{%- endif %}"}};
}

Json config_json() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_act", "silu"},
          {"hidden_size", kWidth},
          {"intermediate_size", kFfnWidth},
          {"num_hidden_layers", kLayers},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"head_dim", 16},
          {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"vocab_size", kVocab},
          {"tie_word_embeddings", true},
          {"bos_token_id", 256 + kMerges},
          {"eos_token_id", 256 + kMerges + 4},
          {"attention_bias", false},
          {"mlp_bias", false}};
}

Json lfm2_config_json(uint32_t context) {
  Json config = config_json();
  config["architectures"] = {"Lfm2ForCausalLM"};
  config["model_type"] = "lfm2";
  config["layer_types"] = {"conv", "full_attention", "conv", "full_attention", "conv"};
  config["num_hidden_layers"] = kLayersOfLfm2;
  config["block_auto_adjust_ff_dim"] = false;
  config["max_position_embeddings"] = context;
  return config;
}

struct Tensor {
  std::string name;
  std::vector<uint32_t> shape;
};

std::vector<Tensor> tensors_of_llama() {
  std::vector<Tensor> tensors = {{"model.embed_tokens.weight", {kVocab, kWidth}}};
  for (uint32_t i = 0; i < kLayers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    tensors.push_back({layer + "input_layernorm.weight", {kWidth}});
    tensors.push_back({layer + "self_attn.q_proj.weight", {kWidth, kWidth}});
    tensors.push_back({layer + "self_attn.k_proj.weight", {kKvWidth, kWidth}});
    tensors.push_back({layer + "self_attn.v_proj.weight", {kKvWidth, kWidth}});
    tensors.push_back({layer + "self_attn.o_proj.weight", {kWidth, kWidth}});
    tensors.push_back({layer + "post_attention_layernorm.weight", {kWidth}});
    tensors.push_back({layer + "mlp.gate_proj.weight", {kFfnWidth, kWidth}});
    tensors.push_back({layer + "mlp.up_proj.weight", {kFfnWidth, kWidth}});
    tensors.push_back({layer + "mlp.down_proj.weight", {kWidth, kFfnWidth}});
  }
  tensors.push_back({"model.norm.weight", {kWidth}});
  return tensors;
}

std::vector<Tensor> tensors_of_lfm2() {
  constexpr uint32_t kTaps = 3;
  std::vector<Tensor> tensors = {{"model.embed_tokens.weight", {kVocab, kWidth}}};
  for (uint32_t i = 0; i < kLayersOfLfm2; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    tensors.push_back({layer + "operator_norm.weight", {kWidth}});
    if (i % 2 == 1) {
      tensors.push_back({layer + "self_attn.q_proj.weight", {kWidth, kWidth}});
      tensors.push_back({layer + "self_attn.k_proj.weight", {kKvWidth, kWidth}});
      tensors.push_back({layer + "self_attn.v_proj.weight", {kKvWidth, kWidth}});
      tensors.push_back({layer + "self_attn.out_proj.weight", {kWidth, kWidth}});
      tensors.push_back({layer + "self_attn.q_layernorm.weight", {kWidth / 2}});
      tensors.push_back({layer + "self_attn.k_layernorm.weight", {kWidth / 2}});
    } else {
      tensors.push_back({layer + "conv.in_proj.weight", {3 * kWidth, kWidth}});
      tensors.push_back({layer + "conv.conv.weight", {kWidth, 1, kTaps}});
      tensors.push_back({layer + "conv.out_proj.weight", {kWidth, kWidth}});
    }
    tensors.push_back({layer + "ffn_norm.weight", {kWidth}});
    tensors.push_back({layer + "feed_forward.w1.weight", {kFfnWidth, kWidth}});
    tensors.push_back({layer + "feed_forward.w3.weight", {kFfnWidth, kWidth}});
    tensors.push_back({layer + "feed_forward.w2.weight", {kWidth, kFfnWidth}});
  }
  tensors.push_back({"model.embedding_norm.weight", {kWidth}});
  return tensors;
}

void write_safetensors(const std::vector<Tensor>& tensors, const fs::path& path) {
  Json header = Json::object();
  std::vector<float> values;
  std::mt19937 random(20261120);
  for (const Tensor& tensor : tensors) {
    size_t n = 1;
    for (const uint32_t size : tensor.shape) n *= size;
    const size_t begin = values.size() * sizeof(float);
    const bool is_norm = tensor.shape.size() == 1;
    for (size_t i = 0; i < n; ++i) {
      // Integers of the generator alone: std's distributions differ between libraries.
      const float unit = static_cast<float>(random() >> 8) * 0x1p-24f - 0.5f;
      values.push_back(is_norm ? 1.0f + 0.2f * unit : 0.8f * unit);
    }
    header[tensor.name] = {{"dtype", "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin, values.size() * sizeof(float)}}};
  }
  const std::string text = header.dump();
  const uint64_t n_bytes = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&n_bytes), sizeof n_bytes);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(float)));
}

void write_folder(const Json& config, const std::vector<Tensor>& tensors, const fs::path& folder) {
  fs::create_directories(folder);
  std::ofstream(folder / "config.json") << config;
  std::ofstream(folder / "tokenizer.json") << tokenizer_json();
  std::ofstream(folder / "tokenizer_config.json") << tokenizer_config_json();
  write_safetensors(tensors, folder / "model.safetensors");
}

}  // namespace

void write_tiny_checkpoint(const fs::path& folder) {
  write_folder(config_json(), tensors_of_llama(), folder);
}

void write_tiny_lfm2(const fs::path& folder, uint32_t context) {
  write_folder(lfm2_config_json(context), tensors_of_lfm2(), folder);
}

}  // namespace cria::test
