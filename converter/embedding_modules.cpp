#include "converter/embedding_modules.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "converter/error.h"
#include "converter/json_input.h"
#include "converter/side_files.h"

namespace cria::converter {
namespace {

using format::Pooling;

constexpr std::string_view kPoolingFolder = "1_Pooling";

// "sentence_transformers.models.Pooling" is a Pooling, wherever its class lies.
std::string_view class_of(std::string_view type) {
  const size_t dot = type.rfind('.');
  return dot == std::string_view::npos ? type : type.substr(dot + 1);
}

struct PoolingMode {
  const char* key;   // that switches it on
  const char* name;  // in files that have pooling_mode
  Pooling pooling;   // kUnsaid: it is not read
};
constexpr PoolingMode kModes[] = {
    {"pooling_mode_lasttoken", "lasttoken", Pooling::kLast},
    {"pooling_mode_mean_tokens", "mean", Pooling::kMean},
    {"pooling_mode_cls_token", "cls", Pooling::kFirst},
    {"pooling_mode_max_tokens", "max", Pooling::kUnsaid},
    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens", Pooling::kUnsaid},
    {"pooling_mode_weightedmean_tokens", "weightedmean", Pooling::kUnsaid},
};

constexpr const char* kReadPoolings = "; last token, mean and cls are read, one at a time";

Pooling read_mode(const JsonObject& config) {
  const PoolingMode* found = nullptr;
  for (const PoolingMode& mode : kModes) {
    if (config.text("pooling_mode").value_or("") != mode.name && !config.is_on(mode.key)) continue;
    if (found != nullptr || mode.pooling == Pooling::kUnsaid) {
      config.refuse(mode.key, std::string("is set, which is not supported") + kReadPoolings);
    }
    found = &mode;
  }
  if (found == nullptr) {
    config.refuse("pooling_mode", std::string("names no pooling") + kReadPoolings);
  }
  return found->pooling;
}

Pooling read_pooling(const std::filesystem::path& folder, std::optional<uint32_t> d_model) {
  const Json json = read_side_json(folder, SideFile::kPoolingConfig);
  const JsonObject config(json, side_file_path(folder, SideFile::kPoolingConfig).string());
  for (const char* key : {"word_embedding_dimension", "embedding_dimension"}) {
    const std::optional<uint32_t> width = config.count(key);
    if (width && d_model && *width != *d_model) {
      config.refuse(key, std::to_string(*width) + " is not the hidden_size of config.json, " +
                             std::to_string(*d_model));
    }
  }
  if (!config.boolean("include_prompt").value_or(true)) {
    config.refuse("include_prompt", "is false: prompts that pooling leaves out are not supported");
  }
  return read_mode(config);
}

}  // namespace

std::optional<EmbeddingModules> read_embedding_modules(const std::filesystem::path& folder,
                                                       std::optional<uint32_t> d_model) {
  if (!has_side_file(folder, SideFile::kModules)) return std::nullopt;
  const Json json = read_side_json(folder, SideFile::kModules);
  const std::string where = side_file_path(folder, SideFile::kModules).string();
  if (!json.is_array()) refuse(where, "is not a list of modules");
  std::optional<EmbeddingModules> found;
  bool is_first = true;
  for (const Json& each : json) {
    const JsonObject module(each, where);
    const std::string type = module.text("type").value_or("");
    const std::string_view kind = class_of(type);
    const bool is_transformer = is_first && kind == "Transformer";
    is_first = false;
    if (is_transformer) continue;
    if (kind == "Pooling" && !found) {
      const std::string path = module.text("path").value_or("");
      if (path != kPoolingFolder) {
        module.refuse("path",
                      shown(path) + " of the pooling is not " + std::string(kPoolingFolder));
      }
      found = EmbeddingModules{read_pooling(folder, d_model), false};
    } else if (kind == "Normalize" && found && !found->is_unit) {
      found->is_unit = true;
    } else {
      module.refuse("type", "'" + shown(type) +
                                "' is not read here; Transformer, Pooling and Normalize are, in "
                                "this order");
    }
  }
  return found;
}

}  // namespace cria::converter
