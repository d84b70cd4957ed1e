#include "converter/hugging_face_folder.h"

#include <utility>

#include "converter/error.h"
#include "converter/float_rows.h"
#include "converter/memory_size.h"
#include "converter/side_files.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsFile = "model.safetensors";

// Each keeps a file open, of which a process has a thousand; the largest checkpoints have 200.
constexpr size_t kMaxShards = 512;
constexpr size_t kMaxNameBytes = 255;  // what file systems have

[[noreturn]] void refuse(const fs::path& where, const std::string& problem) {
  throw ProgramError(ExitCode::kInvalidInput, where.string() + ": " + problem);
}

// The index comes from outside and must not lead the converter out of the folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos && name.size() <= kMaxNameBytes;
}

// The shard of each tensor, by the tensor's name.
std::map<std::string, std::string> read_weight_map(const Json& json, const fs::path& index) {
  const Json* map = json.is_object() && json.contains("weight_map") ? &json["weight_map"] : nullptr;
  if (map == nullptr || !map->is_object()) refuse(index, "has no weight_map");
  std::map<std::string, std::string> shards;
  for (const auto& [name, shard] : map->items()) {
    if (!shard.is_string() || !is_plain_name(shard.get_ref<const std::string&>())) {
      refuse(index, "tensor " + shown(name) + " has no plain file name");
    }
    shards.emplace(name, shard.get<std::string>());
  }
  return shards;
}

class SafetensorsTensor : public SourceTensor {
 public:
  SafetensorsTensor(const std::string& name, const InputFile& file, SafetensorsEntry entry)
      : SourceTensor(name, entry.shape), file_(file), entry_(std::move(entry)) {}

  [[nodiscard]] const fs::path& path() const override { return file_.path(); }
  [[nodiscard]] std::string type_name() const override { return entry_.dtype; }
  [[nodiscard]] std::string problem() const override {
    if (entry_.type) return "";
    return "has dtype " + entry_.dtype + "; only F32, F16 and BF16 are read";
  }
  void read_rows(uint64_t first, size_t n, std::vector<uint8_t>* scratch,
                 float* values) const override {
    const size_t n_values = memory_size(n * n_cols());
    const uint64_t row_bytes = n_cols() * bytes_per_value(*entry_.type);
    scratch->resize(memory_size(n * row_bytes));
    file_.read(entry_.offset + first * row_bytes, *scratch);
    widen(*entry_.type, scratch->data(), n_values, values);
  }

 private:
  const InputFile& file_;
  SafetensorsEntry entry_;
};

}  // namespace

ConfigFiles HuggingFaceFolder::read_config() const {
  const fs::path config = side_file_path(path(), SideFile::kConfig);
  if (!entry_exists(config)) refuse(path(), "has no config.json; give a Hugging Face folder");
  ConfigFiles files;
  files.config = read_side_json(path(), SideFile::kConfig);
  files.where = config.string();
  if (has_side_file(path(), SideFile::kGenerationConfig)) {
    files.generation = read_side_json(path(), SideFile::kGenerationConfig);
    files.generation_where = side_file_path(path(), SideFile::kGenerationConfig).string();
  }
  return files;
}

void HuggingFaceFolder::open_weights() {
  const fs::path& folder = path();
  if (entry_exists(folder / kWeightsFile)) {
    open_single(folder / kWeightsFile);
  } else if (has_side_file(folder, SideFile::kIndex)) {
    open_sharded();
  } else if (entry_exists(folder / "pytorch_model.bin") ||
             entry_exists(folder / "pytorch_model.bin.index.json")) {
    refuse(folder, "has PyTorch weights only; save it as safetensors first");
  } else {
    refuse(folder, "has neither model.safetensors nor model.safetensors.index.json");
  }
}

void HuggingFaceFolder::open_single(const fs::path& file) {
  shards_.push_back(std::make_unique<SafetensorsFile>(file));
  for (const auto& [name, entry] : shards_.back()->tensors()) {
    add(std::make_unique<SafetensorsTensor>(name, shards_.back()->file(), entry));
  }
}

void HuggingFaceFolder::open_sharded() {
  const fs::path& folder = path();
  const fs::path index = side_file_path(folder, SideFile::kIndex);
  const Json json = read_side_json(folder, SideFile::kIndex);
  const std::map<std::string, std::string> shard_names = read_weight_map(json, index);
  std::map<std::string_view, const SafetensorsFile*> opened;
  for (const auto& [name, shard_name] : shard_names) opened.emplace(shard_name, nullptr);
  if (opened.size() > kMaxShards) {
    refuse(index, "names " + std::to_string(opened.size()) + " shards; at most " +
                      std::to_string(kMaxShards) + " are read, save it with larger ones");
  }
  for (auto& [shard_name, file] : opened) {
    const fs::path shard = folder / shard_name;
    if (!entry_exists(shard)) refuse(shard, "this shard is missing, download it again");
    shards_.push_back(std::make_unique<SafetensorsFile>(shard));
    file = shards_.back().get();
  }
  for (const auto& [name, shard_name] : shard_names) {
    const SafetensorsFile* file = opened.at(shard_name);
    const auto entry = file->tensors().find(name);
    if (entry == file->tensors().end()) {
      refuse(folder / shard_name, "has no tensor " + shown(name) + ", though the index says so");
    }
    add(std::make_unique<SafetensorsTensor>(name, file->file(), entry->second));
  }
}

std::vector<fs::path> HuggingFaceFolder::inputs() const {
  std::vector<fs::path> paths;
  for (const auto& shard : shards_) paths.push_back(shard->file().path());
  paths.push_back(path() / kWeightsFile);
  for (const SideFileKind& kind : kSideFiles) paths.push_back(path() / kind.name);
  return paths;
}

std::string HuggingFaceFolder::weights_text() const { return "safetensors, " + types_text(); }

ImportedTokenizer HuggingFaceFolder::read_tokenizer(uint32_t vocab_size,
                                                    std::span<const uint32_t> end_tokens) const {
  return import_tokenizer(path(), vocab_size, end_tokens);
}

}  // namespace cria::converter
