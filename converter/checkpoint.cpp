#include "converter/checkpoint.h"

#include "converter/error.h"
#include "converter/json_input.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr uint64_t kMaxIndexBytes = 1 << 24;

[[noreturn]] void refuse(const fs::path& where, const std::string& problem) {
  throw ConvertError(ExitCode::kInvalidInput, where.string() + ": " + problem);
}

// The index comes from outside and must not lead the converter out of the folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder) {
  if (fs::exists(folder / kSingleFile)) {
    open_single(folder / kSingleFile);
  } else if (fs::exists(folder / kIndexFile)) {
    open_sharded(folder, folder / kIndexFile);
  } else if (fs::exists(folder / "pytorch_model.bin") ||
             fs::exists(folder / "pytorch_model.bin.index.json")) {
    refuse(folder, "has PyTorch weights only; save it as safetensors first");
  } else {
    refuse(folder, "has neither model.safetensors nor model.safetensors.index.json");
  }
}

void Checkpoint::open_single(const fs::path& path) {
  shards_.push_back(std::make_unique<SafetensorsFile>(path));
  for (const auto& [name, entry] : shards_.back()->tensors()) {
    tensors_.emplace(name, SourceTensor{name, &shards_.back()->file(), entry});
  }
}

void Checkpoint::open_sharded(const fs::path& folder, const fs::path& index) {
  const Json json = read_json(index, kMaxIndexBytes);
  if (!json.is_object() || !json.contains("weight_map") || !json["weight_map"].is_object()) {
    refuse(index, "has no weight_map");
  }
  std::map<std::string, const SafetensorsFile*> opened;
  for (const auto& [name, shard] : json["weight_map"].items()) {
    if (!shard.is_string() || !is_plain_name(shard.get<std::string>())) {
      refuse(index, "tensor " + name + " has no plain file name");
    }
    const std::string shard_name = shard.get<std::string>();
    const SafetensorsFile*& file = opened[shard_name];
    if (file == nullptr) {
      if (!fs::exists(folder / shard_name)) {
        refuse(folder / shard_name, "this shard is missing, download it again");
      }
      shards_.push_back(std::make_unique<SafetensorsFile>(folder / shard_name));
      file = shards_.back().get();
    }
    const auto entry = file->tensors().find(name);
    if (entry == file->tensors().end()) {
      refuse(folder / shard_name, "has no tensor " + name + ", though the index says so");
    }
    tensors_.emplace(name, SourceTensor{name, &file->file(), entry->second});
  }
}

const SourceTensor* Checkpoint::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

std::vector<fs::path> Checkpoint::files() const {
  std::vector<fs::path> paths;
  for (const auto& shard : shards_) paths.push_back(shard->file().path());
  return paths;
}

}  // namespace cria::converter
