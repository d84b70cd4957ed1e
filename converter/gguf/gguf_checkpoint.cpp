#include "converter/gguf/gguf_checkpoint.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "converter/error.h"
#include "converter/gguf/gguf_config.h"
#include "converter/gguf/gguf_tokenizer.h"
#include "converter/memory_size.h"
#include "converter/side_files.h"
#include "converter/tensor_plan.h"
#include "converter/tensor_views.h"
#include "quant/format/format.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

// The parts of a layer, and what their matrices are called, by Hugging Face's names.
constexpr std::string_view kAttention = ".self_attn.";
constexpr std::string_view kMlp = ".mlp.";
constexpr std::string_view kProjection = "_proj";

constexpr uint32_t kMaxParts = 512;         // each keeps a file open
constexpr uint64_t kMaxMatrices = 1 << 18;  // of all stacks

class GgufTensor : public SourceTensor {
 public:
  GgufTensor(const InputFile& file, const GgufEntry& entry, std::vector<uint64_t> shape)
      : SourceTensor(entry.name, std::move(shape)), file_(file), entry_(entry) {}
  // Matrix number i of a stack.
  GgufTensor(const InputFile& file, const GgufEntry& entry, uint64_t i)
      : SourceTensor(entry.name, {entry.shape.end() - 2, entry.shape.end()}),
        file_(file),
        entry_(entry),
        first_row_(i * n_rows()) {}

  [[nodiscard]] const fs::path& path() const override { return file_.path(); }
  [[nodiscard]] std::string type_name() const override {
    if (entry_.type != nullptr) return entry_.type->name;
    return "type " + std::to_string(entry_.type_id);
  }
  [[nodiscard]] std::string problem() const override {
    const bool is_known = entry_.type != nullptr && entry_.type->widen != nullptr;
    // A vector is one row to the file, and one value a row here.
    const bool has_rows = is_known && (shape().size() > 1 || entry_.type->block_values == 1);
    if (has_rows) return "";
    return "is of " + type_name() +
           ", which is not read; take the model in Q4_K_M, Q8_0, F16 or as its Hugging Face folder";
  }

  [[nodiscard]] RowOrigin origin(uint64_t row) const override {
    return SourceTensor::origin(first_row_ + row);
  }
  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    const GgufType& type = *entry_.type;
    entry_.type->widen(read_blocks(first, n, scratch),
                       memory_size(n * n_cols() / type.block_values), values);
  }

  [[nodiscard]] std::optional<format::NumberFormat> trained_format() const override {
    return entry_.type->trained_format;
  }
  [[nodiscard]] uint32_t int4_group() const override {
    return entry_.type_id == kGgufQ4_0 ? entry_.type->block_values : 0;
  }
  void read_int4(uint64_t first, size_t n, std::vector<uint8_t>* scratch, int8_t* codes,
                 float* scales) const override {
    unpack_q4_0(read_blocks(first, n, scratch), memory_size(n * n_cols() / int4_group()), codes,
                scales);
  }

 private:
  const uint8_t* read_blocks(uint64_t first, size_t n, std::vector<uint8_t>* scratch) const {
    const GgufType& type = *entry_.type;
    const uint64_t row_bytes = n_cols() / type.block_values * type.block_bytes;
    scratch->resize(memory_size(n * row_bytes));
    file_.read(entry_.offset + (first_row_ + first) * row_bytes, *scratch);
    return scratch->data();
  }

  const InputFile& file_;
  const GgufEntry& entry_;
  uint64_t first_row_ = 0;
};

// Vectors of state spaces lie as matrices of one row or one column.
std::vector<uint64_t> shape_of(const GgufEntry& entry, format::TensorRole role) {
  using format::TensorRole;
  const bool is_vector = role == TensorRole::kDecay || role == TensorRole::kSkip ||
                         role == TensorRole::kMixerInnerNorm;
  std::vector<uint64_t> shape = entry.shape;
  if (is_vector && shape.size() == 2) std::erase(shape, 1U);
  return shape.empty() ? entry.shape : shape;
}

// A bias that a file leaves out because it adds nothing.
class ZeroBias : public SourceTensor {
 public:
  ZeroBias(const std::string& name, uint64_t n, const fs::path& path)
      : SourceTensor(name, {n}), path_(path) {}

  [[nodiscard]] const fs::path& path() const override { return path_; }
  [[nodiscard]] std::string type_name() const override { return "F32"; }
  [[nodiscard]] std::string problem() const override { return ""; }
  void read_rows(uint64_t, size_t n, std::vector<uint8_t>*, float* values) const override {
    std::fill_n(values, n, 0.0F);
  }

 private:
  const fs::path& path_;
};

// Of a matrix's name or its bias's, "model.layers.0.self_attn.q_proj"; nothing: it is neither.
std::optional<std::string> stem_of(const std::string& name, std::string_view part,
                                   std::string_view kind) {
  if (!name.ends_with(kind) || name.find(part) == std::string::npos) return std::nullopt;
  const std::string stem = name.substr(0, name.size() - kind.size());
  return stem.ends_with(kProjection) ? std::optional(stem) : std::nullopt;
}

std::string part_suffix(uint32_t number, uint32_t n_parts) {
  constexpr size_t kSuffixBytes = std::string_view("-00001-of-00005.gguf").size();
  std::array<char, 2 * kSuffixBytes> text;
  std::snprintf(text.data(), text.size(), "-%05u-of-%05u.gguf", number, n_parts);
  return text.data();
}

// "model-00002-of-00005.gguf" of "model-00001-of-00005.gguf"; empty when name is none of those.
std::string part_name(const std::string& name, uint32_t part, uint32_t n_parts) {
  const std::string first = part_suffix(1, n_parts);
  if (!name.ends_with(first)) return "";
  return name.substr(0, name.size() - first.size()) + part_suffix(part, n_parts);
}

uint32_t count_or(const GgufFile& file, const char* key, uint32_t otherwise) {
  return JsonObject(file.metadata(), file.file().path().string()).count(key).value_or(otherwise);
}

}  // namespace

GgufCheckpoint::GgufCheckpoint(const fs::path& path) : Checkpoint(path) {
  files_.push_back(std::make_unique<GgufFile>(path));
  open_parts();
  architecture_ = &find_gguf_architecture(JsonObject(metadata(), path.string()));
}

void GgufCheckpoint::open_parts() {
  constexpr const char* kCount = "split.count";
  constexpr const char* kNumber = "split.no";
  constexpr const char* kTensors = "split.tensors.count";
  const uint32_t n_parts = count_or(*files_.front(), kCount, 1);
  if (n_parts <= 1) return;
  if (n_parts > kMaxParts) {
    refuse(path(), "is one of " + std::to_string(n_parts) + " parts; at most " +
                       std::to_string(kMaxParts) + " are read");
  }
  const uint32_t number = count_or(*files_.front(), kNumber, 0);
  if (number != 0) {
    refuse(path(), "is part " + std::to_string(uint64_t{number} + 1) + " of " +
                       std::to_string(n_parts) +
                       ": give the first, whose name has 00001, and the others are read with it");
  }
  for (uint32_t i = 1; i < n_parts; ++i) {
    const std::string name = part_name(path().filename().string(), i + 1, n_parts);
    if (name.empty()) {
      refuse(path(), "is the first of " + std::to_string(n_parts) +
                         " parts, but not named so: give it its name ..." +
                         part_suffix(1, n_parts) + " back");
    }
    const fs::path part = path().parent_path() / name;
    if (!entry_exists(part)) refuse(part, "this part is missing, download it");
    files_.push_back(std::make_unique<GgufFile>(part));
    if (count_or(*files_.back(), kNumber, 0) != i ||
        count_or(*files_.back(), kCount, 0) != n_parts) {
      refuse(part, "is not the part that its name says, download it again");
    }
  }
  uint64_t n_tensors = 0;
  for (const auto& file : files_) n_tensors += file->tensors().size();
  const uint64_t said = JsonObject(files_.front()->metadata(), path().string())
                            .count(kTensors)
                            .value_or(static_cast<uint32_t>(n_tensors));
  if (said != n_tensors) {
    refuse(path(), "says " + std::to_string(said) + " tensors in all its parts, which have " +
                       std::to_string(n_tensors) + ": they are of different models");
  }
}

const GgufEntry* GgufCheckpoint::find_entry(std::string_view name) const {
  for (const auto& file : files_) {
    for (const GgufEntry& entry : file->tensors()) {
      if (entry.name == name) return &entry;
    }
  }
  return nullptr;
}

std::vector<float> GgufCheckpoint::read_vector(std::string_view name) const {
  for (const auto& file : files_) {
    for (const GgufEntry& entry : file->tensors()) {
      if (entry.name != name) continue;
      const GgufTensor tensor(file->file(), entry, entry.shape);
      const uint64_t n = tensor.n_rows();
      if (tensor.n_cols() != 1 || n > format::kMaxHeadDim || !tensor.problem().empty() ||
          entry.type->block_values != 1) {
        refuse(file->file().path(), "tensor " + shown(entry.name) + " holds no frequency factors");
      }
      std::vector<float> values(memory_size(n));
      std::vector<uint8_t> scratch;
      tensor.read_rows(0, values.size(), &scratch, values.data());
      return values;
    }
  }
  return {};
}

ConfigFiles GgufCheckpoint::read_config() const {
  GgufTensorFacts facts;
  const GgufEntry* embedding = find_entry(kGgufEmbedding);
  if (embedding != nullptr) facts.n_embeddings = embedding->shape.front();
  facts.has_output = find_entry(kGgufOutput) != nullptr;
  facts.attention_bias = find_bias(kAttention);
  facts.mlp_bias = find_bias(kMlp);
  facts.values_are_keys = has_keys_without_values();
  facts.rope_factors = read_vector(kGgufRopeFactors);
  facts.long_factors = read_vector(kGgufLongFactors);
  facts.short_factors = read_vector(kGgufShortFactors);
  return gguf_config(*architecture_, metadata(), facts, path().string());
}

bool GgufCheckpoint::has_keys_without_values() const {
  constexpr std::string_view kKeys = ".attn_k.weight";
  constexpr std::string_view kValues = ".attn_v.weight";
  const auto stems_of = [this](std::string_view kind) {
    std::set<std::string> stems;
    for (const auto& file : files_) {
      for (const GgufEntry& entry : file->tensors()) {
        if (entry.name.ends_with(kind)) {
          stems.insert(entry.name.substr(0, entry.name.size() - kind.size()));
        }
      }
    }
    return stems;
  };
  const std::set<std::string> keys = stems_of(kKeys);
  const std::set<std::string> values = stems_of(kValues);
  return !std::includes(values.begin(), values.end(), keys.begin(), keys.end());
}

// Of layers that attend, where others have none.
uint32_t GgufCheckpoint::n_key_heads(uint32_t otherwise) const {
  const JsonObject object(metadata(), path().string());
  const std::string key = std::string(architecture_->name) + ".attention.head_count_kv";
  const auto found = metadata().find(key);
  if (found == metadata().end() || !found->is_array()) return object.count(key).value_or(otherwise);
  const std::vector<uint32_t> counts = object.counts(key).value_or(std::vector<uint32_t>());
  return counts.empty() ? otherwise : *std::max_element(counts.begin(), counts.end());
}

uint32_t GgufCheckpoint::head_dim(const GgufEntry& entry) const {
  const std::optional<NamedRole> named = gguf_role(*architecture_, entry.name);
  const auto role = named ? without_bias(named->role) : format::TensorRole::kRope;
  if (role != format::TensorRole::kQ && role != format::TensorRole::kK) return 0;
  const JsonObject object(metadata(), path().string());
  const std::string prefix = std::string(architecture_->name) + ".attention.";
  const uint32_t n_heads = object.required_count(prefix + "head_count");
  const uint32_t n_rotated = role == format::TensorRole::kQ ? n_heads : n_key_heads(n_heads);
  const uint64_t n_rows = entry.shape.front();
  const bool fit = n_rotated != 0 && n_rows % n_rotated == 0 && n_rows / n_rotated % 2 == 0 &&
                   n_rows / n_rotated <= format::kMaxHeadDim;
  return fit ? static_cast<uint32_t>(n_rows / n_rotated) : 0;
}

void GgufCheckpoint::open_weights() {
  for (const auto& file : files_) {
    for (const GgufEntry& entry : file->tensors()) {
      if (entry.name == kGgufRopeFactors || entry.name == kGgufLongFactors ||
          entry.name == kGgufShortFactors) {
        continue;
      }
      const std::string name = hugging_face_name(*architecture_, entry.name);
      const bool is_new = name.find(kMatrixNumber) != std::string::npos && entry.shape.size() > 2
                              ? add_stack(name, *file, entry)
                              : add(name, make_tensor(*file, entry));
      if (!is_new) refuse(file->file().path(), "tensor " + shown(entry.name) + " appears twice");
    }
  }
  add_missing_biases();
}

std::unique_ptr<SourceTensor> GgufCheckpoint::make_tensor(const GgufFile& file,
                                                          const GgufEntry& entry) const {
  // Where the heads do not fit, the shape is refused when it is planned.
  const uint32_t dim = architecture_->pairs_rows ? head_dim(entry) : 0;
  const std::optional<NamedRole> named = gguf_role(*architecture_, entry.name);
  std::unique_ptr<SourceTensor> tensor = std::make_unique<GgufTensor>(
      file.file(), entry, named ? shape_of(entry, named->role) : entry.shape);
  return dim != 0 ? without_pairs(std::move(tensor), dim) : std::move(tensor);
}

bool GgufCheckpoint::add_stack(const std::string& name, const GgufFile& file,
                               const GgufEntry& entry) {
  const std::string key = std::string(architecture_->name) + ".expert_count";
  const uint64_t n_experts = JsonObject(metadata(), path().string()).required_count(key);
  if (entry.shape.size() != 3 || entry.shape.front() != n_experts) {
    refuse(file.file().path(), "tensor " + shown(entry.name) + " has shape " +
                                   shape_text(entry.shape) + " where " + key + " asks for " +
                                   std::to_string(n_experts) + " matrices");
  }
  n_matrices_ += n_experts;
  if (n_matrices_ > kMaxMatrices) {
    refuse(path(), "has more than " + std::to_string(kMaxMatrices) + " matrices of experts");
  }
  bool are_new = true;
  for (uint64_t i = 0; i < n_experts; ++i) {
    std::string own = name;
    own.replace(own.find(kMatrixNumber), 1, std::to_string(i));
    are_new = add(own, std::make_unique<GgufTensor>(file.file(), entry, i)) && are_new;
  }
  return are_new;
}

std::string_view GgufCheckpoint::find_bias(std::string_view part) const {
  for (const auto& file : files_) {
    for (const GgufEntry& entry : file->tensors()) {
      const std::string name = hugging_face_name(*architecture_, entry.name);
      if (!stem_of(name, part, ".bias")) continue;
      const bool counts = entry.name == kGgufQueryBias || entry.name == kGgufUpBias;
      if (counts || !is_zero_bias(GgufTensor(file->file(), entry, entry.shape))) return entry.name;
    }
  }
  return {};
}

// llama.cpp adds the biases that are there; where one of a part is, the config asks for all. GPT-2
// always has its own.
void GgufCheckpoint::add_missing_biases() {
  if (architecture_->id == format::Architecture::kGpt2) return;
  std::vector<std::string> stems;
  for (const std::string_view part : {kAttention, kMlp}) {
    if (find_bias(part).empty()) continue;
    for (const auto& [name, tensor] : tensors()) {
      if (const auto stem = stem_of(name, part, ".weight")) stems.push_back(*stem);
    }
  }
  for (const std::string& stem : stems) {
    const std::string bias = stem + ".bias";
    const uint64_t n = find(stem + ".weight")->n_rows();
    // False where the file has it.
    (void)add(bias, std::make_unique<ZeroBias>(name_in_files(bias), n, path()));
  }
}

std::string GgufCheckpoint::name_in_files(const std::string& name) const {
  return gguf_name(*architecture_, name);
}

std::vector<fs::path> GgufCheckpoint::inputs() const {
  std::vector<fs::path> paths;
  for (const auto& file : files_) paths.push_back(file->file().path());
  return paths;
}

std::string GgufCheckpoint::weights_text() const {
  const std::string parts =
      files_.size() > 1 ? " in " + std::to_string(files_.size()) + " parts" : "";
  return "GGUF version " + std::to_string(files_.front()->version()) + parts + ", " + types_text();
}

ImportedTokenizer GgufCheckpoint::read_tokenizer(uint32_t vocab_size,
                                                 std::span<const uint32_t> end_tokens,
                                                 const ChatTemplateChoice* chat_choice) const {
  const std::string where = path().string();
  return import_tokenizer(read_gguf_tokenizer(metadata(), where),
                          gguf_tokenizer_config(metadata(), where), path(), vocab_size, end_tokens,
                          chat_choice);
}

}  // namespace cria::converter
