#include "converter/llama2c/llama2c_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "converter/byte_span.h"
#include "converter/error.h"
#include "converter/float_rows.h"
#include "converter/llama2c/llama2c_tokenizer.h"
#include "converter/memory_size.h"
#include "converter/side_files.h"
#include "converter/tensor_views.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

class Llama2cF32 : public SourceTensor {
 public:
  Llama2cF32(const InputFile& file, const Llama2cTensor& tensor)
      : SourceTensor(tensor.name, tensor.shape), file_(file), offset_(tensor.offset) {}

  [[nodiscard]] const fs::path& path() const override { return file_.path(); }
  [[nodiscard]] std::string type_name() const override { return "F32"; }
  [[nodiscard]] std::string problem() const override { return ""; }
  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    const size_t n_values = memory_size(n * n_cols());
    scratch->resize(n_values * sizeof(float));
    file_.read(offset_ + first * n_cols() * sizeof(float), *scratch);
    widen(SourceType::kF32, scratch->data(), n_values, values);
  }

 private:
  const InputFile& file_;
  uint64_t offset_;
};

// Codes of eight bits; groups may cross rows.
class Llama2cInt8 : public SourceTensor {
 public:
  Llama2cInt8(const InputFile& file, const Llama2cTensor& tensor, uint32_t group_size)
      : SourceTensor(tensor.name, tensor.shape),
        file_(file),
        codes_(tensor.offset),
        scales_(tensor.scales),
        group_size_(group_size) {}

  [[nodiscard]] const fs::path& path() const override { return file_.path(); }
  [[nodiscard]] std::string type_name() const override { return "int8"; }
  [[nodiscard]] std::string problem() const override { return ""; }
  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    const uint64_t begin = first * n_cols();
    const size_t n_values = memory_size(n * n_cols());
    const uint64_t first_group = begin / group_size_;
    const uint64_t n_groups = (begin + n_values - 1) / group_size_ + 1 - first_group;
    const size_t scale_bytes = memory_size(n_groups * sizeof(float));
    scratch->resize(scale_bytes + n_values);
    const std::span<uint8_t> bytes(*scratch);
    file_.read(scales_ + first_group * sizeof(float), bytes.first(scale_bytes));
    file_.read(codes_ + begin, bytes.subspan(scale_bytes));
    for (size_t i = 0; i < n_values; ++i) {
      const size_t group = static_cast<size_t>((begin + i) / group_size_ - first_group);
      float scale;
      std::memcpy(&scale, bytes.data() + group * sizeof scale, sizeof scale);
      values[i] = static_cast<float>(static_cast<int8_t>(bytes[scale_bytes + i])) * scale;
    }
  }

 private:
  const InputFile& file_;
  uint64_t codes_;
  uint64_t scales_;
  uint32_t group_size_;
};

}  // namespace

Llama2cCheckpoint::Llama2cCheckpoint(const fs::path& path, std::optional<fs::path> tokenizer)
    : Checkpoint(path),
      file_(path),
      contents_(read_llama2c(file_)),
      tokenizer_(std::move(tokenizer)) {}

ConfigFiles Llama2cCheckpoint::read_config() const {
  // What config.json calls a number of the header, and the header itself.
  struct Number {
    const char* config;
    const char* header;
    uint32_t value;
  };
  const Llama2cHeader& h = contents_.header;
  const Number numbers[] = {
      {"hidden_size", "dim", h.dim},
      {"intermediate_size", "hidden_dim", h.hidden_dim},
      {"num_hidden_layers", "n_layers", h.n_layers},
      {"num_attention_heads", "n_heads", h.n_heads},
      {"num_key_value_heads", "n_kv_heads", h.n_kv_heads},
      {"vocab_size", "vocab_size", h.vocab_size},
      {"max_position_embeddings", "seq_len", h.seq_len},
  };
  constexpr double kEpsilon = 1e-5;
  constexpr double kTheta = 10000;
  ConfigFiles files;
  files.where = path().string();
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"rms_norm_eps", kEpsilon},
                 {"rope_theta", kTheta},
                 {"tie_word_embeddings", h.shares_embedding}};
  for (const Number& number : numbers) {
    config[number.config] = number.value;
    files.key_names[number.config] = number.header;
  }
  files.config = std::make_shared<const Json>(std::move(config));
  return files;
}

void Llama2cCheckpoint::open_weights() {
  const Llama2cHeader& h = contents_.header;
  for (const Llama2cTensor& stored : contents_.tensors) {
    std::unique_ptr<SourceTensor> tensor;
    if (stored.scales == 0) {
      tensor = std::make_unique<Llama2cF32>(file_, stored);
    } else {
      tensor = std::make_unique<Llama2cInt8>(file_, stored, h.group_size);
    }
    if (stored.is_of_heads) tensor = without_pairs(std::move(tensor), h.dim / h.n_heads);
    add(stored.name, std::move(tensor));
  }
}

std::vector<fs::path> Llama2cCheckpoint::tokenizer_places() const {
  if (tokenizer_) return {*tokenizer_};
  const fs::path folder = path().parent_path();
  return {folder / "tokenizer.bin",
          folder / ("tok" + std::to_string(contents_.header.vocab_size) + ".bin")};
}

std::vector<fs::path> Llama2cCheckpoint::inputs() const {
  std::vector<fs::path> paths = tokenizer_places();
  paths.push_back(path());
  return paths;
}

std::string Llama2cCheckpoint::weights_text() const {
  return "llama2.c version " + std::to_string(contents_.header.version) + ", " + types_text();
}

ImportedTokenizer Llama2cCheckpoint::read_tokenizer(uint32_t vocab_size,
                                                    std::span<const uint32_t> end_tokens,
                                                    const ChatTemplateChoice* chat_choice) const {
  const std::vector<fs::path> places = tokenizer_places();
  const auto found = std::find_if(places.begin(), places.end(), &entry_exists);
  if (found == places.end()) {
    throw ProgramError(ExitCode::kInvalidInput,
                       path().string() + ": there is no " +
                           (tokenizer_ ? places.front().string()
                                       : places.front().filename().string() + " or " +
                                             places.back().filename().string() + " beside it") +
                           "; name its tokenizer's file with --tokenizer, or convert with "
                           "--no-tokenizer");
  }
  const std::string text = read_small_file(*found, kMaxLlama2cTokenizerBytes);
  TokenizerModel model = read_llama2c_tokenizer(bytes_of(text), vocab_size, found->string());
  return import_tokenizer(std::move(model), {}, *found, vocab_size, end_tokens, chat_choice);
}

}  // namespace cria::converter
