// Writes GGUF files for the converter's tests: small, and as broken as a test wants them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {

struct GgufTestTensor {
  std::string name;
  std::vector<uint64_t> shape;  // outermost side first
  uint32_t type;
  std::string data;
};

class GgufWriter {
 public:
  uint32_t version = 3;
  uint64_t alignment = 32;
  std::vector<GgufTestTensor> tensors;

  template <typename T>
  static std::string bytes_of_number(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
  }
  static std::string text(std::string_view value) {
    return bytes_of_number(uint64_t{value.size()}).append(value);
  }

  // Puts a value of any type, given as its bytes.
  void put(std::string_view key, uint32_t type, const std::string& bytes) {
    values_ += text(key) + bytes_of_number(type) + bytes;
    ++n_values_;
  }
  void put_count(std::string_view key, uint32_t value) {
    if (key != replaced_) put(key, 4, bytes_of_number(value));
  }
  // Puts a count that stays, whatever is put by the same key from now on.
  void replace_count(std::string_view key, uint32_t value) {
    put_count(key, value);
    replaced_ = key;
  }
  void put_number(std::string_view key, float value) { put(key, 6, bytes_of_number(value)); }
  void put_text(std::string_view key, std::string_view value) { put(key, 8, text(value)); }
  void put_flag(std::string_view key, bool value) { put(key, 7, std::string(1, value ? 1 : 0)); }
  template <typename T>
  void put_numbers(std::string_view key, uint32_t type, const std::vector<T>& values) {
    std::string items;
    for (const T value : values) items += bytes_of_number(value);
    put_list(key, type, values.size(), items);
  }
  void put_list(std::string_view key, uint32_t type, uint64_t n, const std::string& items) {
    put(key, 9, bytes_of_number(type) + bytes_of_number(n) + items);
  }

  // Counts of this key are not put from now on.
  void leave_out(std::string_view key) { replaced_ = key; }

  // The header of a Llama like TinyCheckpoint's.
  void put_tiny_llama(const std::string& architecture = "llama") {
    put_text("general.architecture", architecture);
    const std::pair<const char*, uint32_t> counts[] = {
        {".block_count", 1},          {".embedding_length", 64},       {".feed_forward_length", 96},
        {".attention.head_count", 4}, {".attention.head_count_kv", 2}, {".context_length", 128},
        {".vocab_size", 50}};
    for (const auto& [key, value] : counts) put_count(architecture + key, value);
    put_number(architecture + ".attention.layer_norm_rms_epsilon", 1e-6f);
  }

  // TinyCheckpoint's tensors as llama.cpp's converter stores them, q and k in pairs where it has
  // them so.
  void put_tensors(const TinyCheckpoint& checkpoint, bool has_pairs = true) {
    const std::string layer = "model.layers.0.";
    const std::vector<std::pair<std::string, std::string>> names = {
        {"model.embed_tokens.weight", "token_embd.weight"},
        {layer + "input_layernorm.weight", "blk.0.attn_norm.weight"},
        {layer + "self_attn.q_proj.weight", "blk.0.attn_q.weight"},
        {layer + "self_attn.k_proj.weight", "blk.0.attn_k.weight"},
        {layer + "self_attn.v_proj.weight", "blk.0.attn_v.weight"},
        {layer + "self_attn.o_proj.weight", "blk.0.attn_output.weight"},
        {layer + "post_attention_layernorm.weight", "blk.0.ffn_norm.weight"},
        {layer + "mlp.gate_proj.weight", "blk.0.ffn_gate.weight"},
        {layer + "mlp.up_proj.weight", "blk.0.ffn_up.weight"},
        {layer + "mlp.down_proj.weight", "blk.0.ffn_down.weight"},
        {"model.norm.weight", "output_norm.weight"},
        {"lm_head.weight", "output.weight"}};
    for (const TestTensor& tensor : checkpoint.tensors) {
      for (const auto& [from, to] : names) {
        if (from != tensor.name) continue;
        const bool is_q_or_k =
            to.find("attn_q.") != std::string::npos || to.find("attn_k.") != std::string::npos;
        const std::string data = has_pairs && is_q_or_k ? paired(tensor) : tensor.data;
        tensors.push_back({to, tensor.shape, 0, data});
      }
    }
  }

  // Rows of heads of 16 from halves to pairs.
  static std::string paired(const TestTensor& tensor) {
    constexpr uint64_t kHead = 16;
    const uint64_t row_bytes = tensor.shape[1] * sizeof(float);
    std::string data;
    for (uint64_t head = 0; head < tensor.shape[0] / kHead; ++head) {
      for (uint64_t i = 0; i < kHead / 2; ++i) {
        for (uint64_t half = 0; half < 2; ++half) {
          const uint64_t row = head * kHead + half * kHead / 2 + i;
          data += tensor.data.substr(row * row_bytes, row_bytes);
        }
      }
    }
    return data;
  }

  [[nodiscard]] std::string bytes() const {
    std::string header = "GGUF" + bytes_of_number(version) +
                         bytes_of_number(uint64_t{tensors.size()}) + bytes_of_number(n_values_) +
                         values_;
    std::string data;
    for (const GgufTestTensor& tensor : tensors) {
      header += text(tensor.name) + bytes_of_number(static_cast<uint32_t>(tensor.shape.size()));
      for (size_t i = tensor.shape.size(); i-- > 0;) header += bytes_of_number(tensor.shape[i]);
      header += bytes_of_number(tensor.type) + bytes_of_number(uint64_t{data.size()});
      data += tensor.data;
      data.resize((data.size() + alignment - 1) / alignment * alignment, '\0');
    }
    header.resize((header.size() + alignment - 1) / alignment * alignment, '\0');
    return header + data;
  }

 private:
  std::string values_;
  std::string replaced_;
  uint64_t n_values_ = 0;
};

}  // namespace cria::test
