// Small checkpoints for the converter's tests, and the folders they live in.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "converter/error.h"

namespace cria::test {

using Bytes = std::vector<uint8_t>;

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "cria-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const {
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline size_t files_in(const std::filesystem::path& folder) {
  size_t n = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++n;
  return n;
}

// A safetensors file: length, header, data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + data;
}

struct TestTensor {
  std::string name;  // without anything that JSON escapes
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string data;
};

inline std::string json_list(const std::vector<uint64_t>& values) {
  std::string text;
  for (const uint64_t value : values) text += (text.empty() ? "" : ",") + std::to_string(value);
  return "[" + text + "]";
}

// values: each as JSON.
inline std::string json_object(const std::map<std::string, std::string>& values) {
  std::string text;
  for (const auto& [key, value] : values) {
    text += (text.empty() ? "\"" : ",\"") + key + "\":" + value;
  }
  return "{" + text + "}";
}

// Names stand in the header as they are: what JSON escapes, they hold escaped.
inline void write_safetensors(const std::filesystem::path& path,
                              const std::vector<TestTensor>& tensors) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::string data;
  for (const TestTensor& tensor : tensors) {
    const uint64_t begin = data.size();
    data += tensor.data;
    header += ",\"" + tensor.name + R"(":{"dtype":")" + tensor.dtype + R"(","shape":)" +
              json_list(tensor.shape) +
              ",\"data_offsets\":" + json_list({begin, uint64_t{data.size()}}) + "}";
  }
  write_file(path, safetensors_bytes(header + "}", data));
}

// F32 values, Gaussian with a deviation of 1/16.
inline TestTensor random_tensor(const std::string& name, const std::vector<uint64_t>& shape,
                                std::mt19937* rng) {
  std::normal_distribution<float> values(0.0f, 1.0f / 16);
  uint64_t n = 1;
  for (const uint64_t dimension : shape) n *= dimension;
  std::string data(n * sizeof(float), '\0');
  for (uint64_t i = 0; i < n; ++i) {
    const float value = values(*rng);
    std::memcpy(data.data() + i * sizeof(float), &value, sizeof(float));
  }
  return {name, "F32", shape, data};
}

// A Llama of one layer, by default 64 wide, 4 heads over 2, 96 wide FFN, 50 tokens; tests change it
// before it is written.
struct TinyCheckpoint {
  std::map<std::string, std::string> config;  // each value as JSON, without its library
  std::vector<TestTensor> tensors;

  TinyCheckpoint() : TinyCheckpoint(64, 96, 50) {}
  // width is a multiple of 4.
  TinyCheckpoint(uint64_t width, uint64_t ffn, uint64_t vocab) {
    config = {{"architectures", R"(["LlamaForCausalLM"])"},
              {"model_type", R"("llama")"},
              {"hidden_size", std::to_string(width)},
              {"head_dim", "16"},
              {"intermediate_size", std::to_string(ffn)},
              {"num_attention_heads", "4"},
              {"num_key_value_heads", "2"},
              {"num_hidden_layers", "1"},
              {"vocab_size", std::to_string(vocab)},
              {"max_position_embeddings", "128"},
              {"bos_token_id", "1"},
              {"eos_token_id", "2"},
              {"tie_word_embeddings", "false"}};
    constexpr uint64_t kQ = 64;
    constexpr uint64_t kKv = 32;
    std::mt19937 rng(20);
    const std::string layer = "model.layers.0.";
    const std::vector<std::pair<std::string, std::vector<uint64_t>>> shapes = {
        {"model.embed_tokens.weight", {vocab, width}},
        {layer + "input_layernorm.weight", {width}},
        {layer + "self_attn.q_proj.weight", {kQ, width}},
        {layer + "self_attn.k_proj.weight", {kKv, width}},
        {layer + "self_attn.v_proj.weight", {kKv, width}},
        {layer + "self_attn.o_proj.weight", {width, kQ}},
        {layer + "post_attention_layernorm.weight", {width}},
        {layer + "mlp.gate_proj.weight", {ffn, width}},
        {layer + "mlp.up_proj.weight", {ffn, width}},
        {layer + "mlp.down_proj.weight", {width, ffn}},
        {"model.norm.weight", {width}},
        {"lm_head.weight", {vocab, width}}};
    for (const auto& [name, shape] : shapes) tensors.push_back(random_tensor(name, shape, &rng));
  }

  TestTensor& tensor(const std::string& name) {
    for (TestTensor& t : tensors) {
      if (t.name == name) return t;
    }
    throw std::out_of_range(name);
  }
  void erase(const std::string& name) {
    std::erase_if(tensors, [&](const TestTensor& t) { return t.name == name; });
  }

  [[nodiscard]] std::string config_text() const { return json_object(config); }

  void write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    write_file(folder / "config.json", config_text());
    write_safetensors(folder / "model.safetensors", tensors);
  }
};

// Runs body, which must throw a ProgramError with this code whose line holds every one of parts.
inline void expect_refused(converter::ExitCode code, const std::vector<std::string>& parts,
                           const std::function<void()>& body) {
  try {
    body();
    ADD_FAILURE() << "not refused, though it should say: " << (parts.empty() ? "" : parts[0]);
  } catch (const converter::ProgramError& e) {
    EXPECT_EQ(static_cast<int>(code), static_cast<int>(e.code())) << e.what();
    for (const std::string& part : parts) {
      EXPECT_NE(std::string(e.what()).find(part), std::string::npos)
          << "'" << part << "' is not in: " << e.what();
    }
    EXPECT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
  }
}

inline void expect_invalid(const std::vector<std::string>& parts,
                           const std::function<void()>& body) {
  expect_refused(converter::ExitCode::kInvalidInput, parts, body);
}

}  // namespace cria::test
