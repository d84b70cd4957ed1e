#include "converter/hugging_face_folder.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "converter/architecture_table.h"
#include "converter/bitnet/bitnet_tensor.h"
#include "converter/error.h"
#include "converter/gptq/gptq_settings.h"
#include "converter/gptq/gptq_tensor.h"
#include "converter/safetensors_tensor.h"
#include "converter/side_files.h"
#include "converter/tensor_names.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeightsFile = "model.safetensors";
constexpr std::string_view kModelFront = "model.";
constexpr const char* kQuantization = "quantization_config";

// Each keeps a file open, of which a process has a thousand; the largest checkpoints have 200.
constexpr size_t kMaxShards = 512;
constexpr size_t kMaxNameBytes = 255;  // what file systems have

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

// How weights are packed: as GPTQ's, or as BitNet's.
struct Packing {
  std::optional<GptqSettings> gptq;
};

// How the weights of a folder are quantized already; nothing: they are not.
std::optional<Packing> quantization_of(const fs::path& folder) {
  Json config;  // a folder without one is refused before its weights are opened
  if (has_side_file(folder, SideFile::kConfig)) config = read_side_json(folder, SideFile::kConfig);
  const std::string where = side_file_path(folder, SideFile::kConfig).string();
  if (config.is_object() && JsonObject(config, where).has(kQuantization)) {
    const Json& own = config[kQuantization];
    const std::string own_where = where + ": " + kQuantization;
    if (is_packed_bitnet(own, own_where)) return Packing{};
    return Packing{read_gptq_settings(own, QuantizationFile::kConfig, own_where)};
  }
  if (!has_side_file(folder, SideFile::kQuantizeConfig)) return std::nullopt;
  return Packing{read_gptq_settings(read_side_json(folder, SideFile::kQuantizeConfig),
                                    QuantizationFile::kOwn,
                                    side_file_path(folder, SideFile::kQuantizeConfig).string())};
}

// Of a model that sees or hears too, what it is made of to write; what it does not say there, the
// whole config says.
void take_text_model(Json* values, ConfigFiles* files) {
  constexpr const char* kText = "text_config";
  const JsonObject config(*values, files->where);
  const auto classes = config.texts("architectures");
  if (!classes || classes->empty() || !holds_text_model(classes->front()) || !config.has(kText)) {
    return;
  }
  Json text = (*values)[kText];
  const JsonObject said(text, files->where + ": " + kText);
  for (const auto& [key, value] : text.items()) {
    files->key_names.emplace(key, std::string(kText) + "." + key);
  }
  for (const char* const key : {"bos_token_id", "eos_token_id", "tie_word_embeddings"}) {
    if (config.has(key) && !said.has(key)) text[key] = (*values)[key];
  }
  *values = std::move(text);
}

// The weights that Meta itself gives out are named so.
bool has_consolidated_weights(const fs::path& folder) {
  return entry_exists(folder / "consolidated.00.pth") || entry_exists(folder / "consolidated.pth");
}

// How the class of a model spells the names of what all models have.
struct Spelling {
  std::string_view of_every_model;  // a tensor that each one of the class has
  std::string_view front;           // what stands in all names before that, but of the output layer
  std::string_view own;
  std::string_view ours;
};
constexpr Spelling kSpellings[] = {
    {"layers.0.input_layernorm.weight", kModelFront, "", ""},
    {"layers.0.post_attention_layernorm.weight", kModelFront, "", ""},
    {"h.0.ln_1.weight", "transformer.", "h.", "layers."},
    {"h.0.ln_1.weight", "transformer.", "wte.", "embed_tokens."},
    {"h.0.ln_1.weight", "transformer.", "wpe.", "embed_positions."},
    {"h.0.ln_1.weight", "transformer.", "ln_f.", "norm."},
};

// Layers for other tokens than the next, and those of what sees or hears, which are called as a
// model's are.
constexpr std::string_view kForLaterTokens = "mtp.";
constexpr std::string_view kTowers[] = {"vision_tower.", "audio_tower."};

bool is_of_other_layers(std::string_view name) {
  return name.starts_with(kForLaterTokens) ||
         std::any_of(std::begin(kTowers), std::end(kTowers), [name](std::string_view tower) {
           return name.find(tower) != std::string_view::npos;
         });
}

// The front of a checkpoint's model, and its class's spelling.
struct ModelFront {
  std::string front;
  const Spelling* spelling;
};

// What stands in the names before "layers.": "model." where nobody wrapped the model or took the
// output layer off it. A checkpoint of several models is left as it is.
template <typename Named>
ModelFront front_of_model(const std::map<std::string, Named>& tensors) {
  std::map<std::string, const Spelling*> fronts;
  for (const auto& entry : tensors) {
    const std::string name = without_wrappers(entry.first);
    if (is_of_other_layers(name)) continue;
    for (const Spelling& spelling : kSpellings) {
      if (!name.ends_with(spelling.of_every_model)) continue;
      const std::string front = name.substr(0, name.size() - spelling.of_every_model.size());
      if (front.empty() || front.ends_with('.')) fronts.emplace(front, &spelling);
    }
  }
  if (fronts.size() != 1) return {std::string(kModelFront), kSpellings};
  return {fronts.begin()->first, fronts.begin()->second};
}

// A name without the front, as all models spell it.
std::string respelled(std::string_view name, const Spelling& of_class) {
  for (const Spelling& spelling : kSpellings) {
    const bool fits = spelling.of_every_model == of_class.of_every_model && !spelling.own.empty() &&
                      name.starts_with(spelling.own);
    if (!fits) continue;
    return std::string(kModelFront).append(spelling.ours).append(name.substr(spelling.own.size()));
  }
  return std::string(kModelFront).append(name);
}

// The output layer stands beside what has the layers.
std::string name_without_front(const std::string& name, const ModelFront& model) {
  const std::string_view usual = model.spelling->front;
  const bool has_usual = model.front.ends_with(usual);
  const std::string beside =
      has_usual ? model.front.substr(0, model.front.size() - usual.size()) : model.front;
  constexpr std::string_view kHead = "lm_head.";  // whatever it is made of
  if (name.starts_with(kHead)) return name;
  if (name.starts_with(beside + std::string(kHead))) return name.substr(beside.size());
  if (!name.starts_with(model.front)) return name;
  return respelled(std::string_view(name).substr(model.front.size()), *model.spelling);
}

}  // namespace

ConfigFiles HuggingFaceFolder::read_config() const {
  const fs::path config = side_file_path(path(), SideFile::kConfig);
  if (!entry_exists(config) && has_consolidated_weights(path())) {
    refuse(path(),
           "has Meta's PyTorch weights (consolidated.*.pth), which are not read; take the model's "
           "Hugging Face folder with safetensors");
  }
  const bool has_adapter = has_side_file(path(), SideFile::kAdapterConfig);
  if (!entry_exists(config) && has_adapter) {
    refuse(path(), "is an adapter; give the model that it was made for, and this with --lora");
  }
  if (!entry_exists(config)) refuse(path(), "has no config.json; give a Hugging Face folder");
  ConfigFiles files;
  if (has_adapter) {
    files.warnings.push_back(
        "the folder also has an adapter (adapter_config.json), which is not merged; --lora merges "
        "it");
  }
  Json values = read_side_json(path(), SideFile::kConfig);
  files.where = config.string();
  // It says how weights are stored, which is settled when they are opened.
  if (quantization_of(path())) values.erase(kQuantization);
  take_text_model(&values, &files);
  files.embedding =
      read_embedding_modules(path(), JsonObject(values, files.where).count("hidden_size"));
  files.config = std::make_shared<const Json>(std::move(values));
  if (has_side_file(path(), SideFile::kGenerationConfig)) {
    files.generation =
        std::make_shared<const Json>(read_side_json(path(), SideFile::kGenerationConfig));
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
    refuse(folder,
           "has neither model.safetensors nor model.safetensors.index.json; download the one "
           "that the model has");
  }
  rename_stored();
  add_tensors();
}

void HuggingFaceFolder::rename_stored() {
  const ModelFront front = front_of_model(stored_);
  std::map<std::string, Stored> renamed;
  for (auto& [name, stored] : stored_) {
    const std::string file_name = stored.name;
    const fs::path& file = stored.file->path();
    if (!renamed.emplace(name_without_front(without_wrappers(name), front), std::move(stored))
             .second) {
      refuse(file, "tensor " + shown(file_name) + " appears twice, under names of two wrappers");
    }
  }
  stored_ = std::move(renamed);
  is_respelled_ = !front.spelling->own.empty();
}

std::string HuggingFaceFolder::name_in_files(const std::string& name) const {
  if (!is_respelled_ || !name.starts_with(kModelFront)) return name;
  const std::string_view rest = std::string_view(name).substr(kModelFront.size());
  for (const Spelling& spelling : kSpellings) {
    if (spelling.ours.empty() || !rest.starts_with(spelling.ours)) continue;
    return std::string(spelling.front)
        .append(spelling.own)
        .append(rest.substr(spelling.ours.size()));
  }
  return name;
}

void HuggingFaceFolder::add_tensors() {
  constexpr std::string_view kCodes = ".qweight";
  constexpr std::string_view kParts[] = {kCodes, ".scales", ".qzeros", ".g_idx"};
  const std::optional<Packing> packing = quantization_of(path());
  const std::optional<GptqSettings> settings = packing ? packing->gptq : std::nullopt;
  if (packing && !settings) return add_ternary();
  const auto part = [this](const std::string& name) {
    const auto found = stored_.find(name);
    return found == stored_.end() ? GptqPart{} : GptqPart{found->second.file, found->second.entry};
  };
  for (const auto& [name, stored] : stored_) {
    const auto is_end = [&whole = name](std::string_view end) { return whole.ends_with(end); };
    if (!settings && is_end(kCodes)) {
      refuse(path(), "has packed weights (" + shown(name) +
                         ") and does not say how: neither quantization_config in config.json nor "
                         "quantize_config.json; take the whole folder of the model");
    }
    if (!settings || std::none_of(std::begin(kParts), std::end(kParts), is_end)) {
      if (!add(name,
               std::make_unique<SafetensorsTensor>(stored.name, *stored.file, *stored.entry))) {
        refuse(stored.file->path(), "tensor " + shown(stored.name) + " is there plain and packed");
      }
      continue;
    }
    if (!name.ends_with(kCodes)) continue;
    const std::string stem = name.substr(0, name.size() - kCodes.size());
    const GptqParts parts = {part(name), part(stem + ".scales"), part(stem + ".qzeros"),
                             part(stem + ".g_idx")};
    const std::string whole = stem + ".weight";
    if (!add(whole, make_gptq_tensor(whole, parts, *settings))) {
      refuse(stored.file->path(), "tensor " + shown(whole) + " appears twice");
    }
  }
}

void HuggingFaceFolder::add_ternary() {
  constexpr std::string_view kCodes = ".weight";
  constexpr std::string_view kScale = ".weight_scale";
  const auto are_codes = [](const auto& found) { return found->second.entry->dtype == "U8"; };
  for (auto at = stored_.begin(); at != stored_.end(); ++at) {
    const std::string& name = at->first;  // clang's lambdas take no structured bindings
    const Stored& stored = at->second;
    // The other part, where a name is that of a matrix or of its scale.
    const auto find_part = [&](std::string_view end, std::string_view other) {
      if (!name.ends_with(end)) return stored_.end();
      return stored_.find(name.substr(0, name.size() - end.size()).append(other));
    };
    if (const auto codes = find_part(kScale, kCodes); codes != stored_.end() && are_codes(codes)) {
      continue;  // goes with them
    }
    const auto scale = find_part(kCodes, kScale);
    if (scale == stored_.end() || !are_codes(at)) {
      (void)add(name,
                std::make_unique<SafetensorsTensor>(stored.name, *stored.file, *stored.entry));
      continue;
    }
    (void)add(name, make_bitnet_tensor(stored.name, {stored.file, stored.entry},
                                       {scale->second.file, scale->second.entry}));
  }
}

void HuggingFaceFolder::open_single(const fs::path& file) {
  shards_.push_back(std::make_unique<SafetensorsFile>(file));
  for (const auto& [name, entry] : shards_.back()->tensors()) {
    stored_[name] = {&shards_.back()->file(), &entry, name};
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
    stored_[name] = {&file->file(), &entry->second, name};
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
                                                    std::span<const uint32_t> end_tokens,
                                                    const ChatTemplateChoice* chat_choice) const {
  return import_tokenizer(path(), vocab_size, end_tokens, chat_choice);
}

}  // namespace cria::converter
