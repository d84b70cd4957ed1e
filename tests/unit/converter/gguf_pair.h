// A Hugging Face folder, and the GGUF file that llama.cpp's converter makes of it.
#pragma once

#include <gtest/gtest.h>

#include "converter/convert.h"
#include "tests/unit/converter/gguf_writer.h"
#include "tests/unit/converter/model_read_back.h"

namespace cria::test {

inline constexpr uint64_t kWidth = 64;
inline constexpr uint64_t kVocab = 50;
inline constexpr size_t kExperts = 3;
inline const std::string kLayer = "model.layers.0.";

inline ModelReadBack convert(const std::filesystem::path& model, format::NumberFormat weights) {
  converter::Options options;
  options.model = model;
  options.output = model.string() + ".cria";
  options.tokenizer = converter::TokenizerChoice::kNone;
  options.weights = weights;
  options.group_size = matrix_format(weights, 32).group_size;
  options.n_threads = 2;
  converter::Progress progress(converter::Verbosity::kQuiet);
  EXPECT_TRUE(converter::convert(options, &progress).warnings.empty());
  return ModelReadBack(options.output);
}

// A folder and a GGUF file become files with one config and the same tensors.
inline void expect_same_models(const std::filesystem::path& folder,
                               const std::filesystem::path& gguf) {
  const ModelReadBack of_folder = convert(folder, format::NumberFormat::kF32);
  const ModelReadBack of_gguf = convert(gguf, format::NumberFormat::kF32);
  EXPECT_TRUE(of_folder.section(format::SectionKind::kConfig) ==
              of_gguf.section(format::SectionKind::kConfig));
  ASSERT_EQ(of_folder.tensors().size(), of_gguf.tensors().size());
  for (size_t i = 0; i < of_folder.tensors().size(); ++i) {
    EXPECT_TRUE(of_folder.raw(of_folder.tensors()[i]) == of_gguf.raw(of_gguf.tensors()[i])) << i;
  }
}

// A checkpoint of one layer with experts, and the GGUF file that llama.cpp's converter makes of it.
struct Pair {
  TinyCheckpoint folder;
  GgufWriter gguf;
  std::mt19937 rng{4};
  int number = 0;  // of the layer whose tensors are put

  // n_rows: of an expert.
  Pair(const char* class_name, const char* model_type, const std::string& architecture,
       uint64_t n_rows)
      : folder(kWidth, n_rows, kVocab), architecture_(architecture), n_rows_(n_rows) {
    folder.config["architectures"] = "[\"" + std::string(class_name) + "\"]";
    folder.config["model_type"] = "\"" + std::string(model_type) + "\"";
    for (const char* key : {"bos_token_id", "eos_token_id"}) folder.config[key] = "null";
    for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
      folder.erase(layer() + "mlp." + name + ".weight");
    }
  }

  void count(const std::string& gguf_key, const std::string& key, uint32_t value) {
    gguf.put_count(architecture_ + "." + gguf_key, value);
    folder.config[key] = std::to_string(value);
  }
  // A tensor of both.
  void put(const std::string& name, const std::string& gguf_name,
           const std::vector<uint64_t>& shape) {
    put_named(layer() + name, block() + gguf_name, shape);
  }
  // One outside the layers, or of another than the first.
  void put_named(const std::string& name, const std::string& gguf_name,
                 const std::vector<uint64_t>& shape) {
    folder.tensors.push_back(random_tensor(name, shape, &rng));
    gguf.tensors.push_back({gguf_name, shape, 0, folder.tensors.back().data});
  }
  // Tensors of which each expert has one in the folder, its number between front and behind.
  void put_stack(const std::string& front, const std::string& behind, const std::string& gguf_name,
                 const std::vector<uint64_t>& shape) {
    GgufTestTensor stack = {block() + gguf_name, {kExperts, shape[0], shape[1]}, 0, ""};
    for (size_t i = 0; i < kExperts; ++i) {
      const std::string name = layer() + front + std::to_string(i) + behind;
      folder.tensors.push_back(random_tensor(name, shape, &rng));
      stack.data += folder.tensors.back().data;
    }
    gguf.tensors.push_back(std::move(stack));
  }
  // Puts what comes before the experts.
  void begin(bool has_pairs) {
    gguf.replace_count(architecture_ + ".feed_forward_length", static_cast<uint32_t>(n_rows_));
    gguf.put_tiny_llama(architecture_);
    if (has_pairs) {
      gguf.put_count(architecture_ + ".attention.key_length", 16);
      gguf.put_count(architecture_ + ".attention.value_length", 16);
    }
    gguf.put_tensors(folder, has_pairs);
    gguf.put_count(architecture_ + ".expert_count", kExperts);
  }

  void expect_same() {
    const TempFolder temporary;
    folder.write(temporary / "hf");
    write_file(temporary / "m.gguf", gguf.bytes());
    expect_same_models(temporary / "hf", temporary / "m.gguf");
  }
  void refuses(const std::vector<std::string>& parts) {
    const TempFolder temporary;
    write_file(temporary / "m.gguf", gguf.bytes());
    expect_invalid(parts, [&] { (void)convert(temporary / "m.gguf", format::NumberFormat::kF32); });
  }
  GgufTestTensor& tensor(const std::string& name) {
    for (GgufTestTensor& t : gguf.tensors) {
      if (t.name == name) return t;
    }
    throw std::out_of_range(name);
  }

 private:
  [[nodiscard]] std::string layer() const { return "model.layers." + std::to_string(number) + "."; }
  [[nodiscard]] std::string block() const { return "blk." + std::to_string(number) + "."; }

  std::string architecture_;
  uint64_t n_rows_;
};

}  // namespace cria::test
