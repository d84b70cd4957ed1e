#include "converter/checkpoint.h"

#include "converter/error.h"
#include "converter/side_files.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

Checkpoint::Checkpoint(const fs::path& folder) : folder_(folder) {
  if (entry_exists(folder / kWeightsFile)) {
    open_single(folder / kWeightsFile);
  } else if (has_side_file(folder, SideFile::kIndex)) {
    open_sharded(folder);
  } else if (entry_exists(folder / "pytorch_model.bin") ||
             entry_exists(folder / "pytorch_model.bin.index.json")) {
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

void Checkpoint::open_sharded(const fs::path& folder) {
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
    const fs::path path = folder / shard_name;
    if (!entry_exists(path)) refuse(path, "this shard is missing, download it again");
    shards_.push_back(std::make_unique<SafetensorsFile>(path));
    file = shards_.back().get();
  }
  for (const auto& [name, shard_name] : shard_names) {
    const SafetensorsFile* file = opened.at(shard_name);
    const auto entry = file->tensors().find(name);
    if (entry == file->tensors().end()) {
      refuse(folder / shard_name, "has no tensor " + shown(name) + ", though the index says so");
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
