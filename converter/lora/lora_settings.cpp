#include "converter/lora/lora_settings.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "converter/error.h"
#include "converter/side_files.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxRegexes = 256;  // each has its classes, of up to some kilobytes

constexpr const char* kInit = "init_lora_weights";
constexpr const char* kAdvice = "; merge the adapter with peft (merge_and_unload) and convert that";

// Keys that are read, or leave the sum of base and factors as it is. Another that is set may change
// what is computed: DoRA, biases of factors, or what a newer peft has.
constexpr std::string_view kKnownKeys[] = {"alpha_pattern",
                                           "auto_mapping",
                                           "base_model_name_or_path",
                                           "bias",
                                           "corda_config",
                                           "ensure_weight_tying",
                                           "eva_config",
                                           "exclude_modules",
                                           "inference_mode",
                                           "init_lora_weights",
                                           "layers_pattern",
                                           "layers_to_transform",
                                           "loftq_config",
                                           "lora_alpha",
                                           "lora_dropout",
                                           "lora_ga_config",
                                           "megatron_core",
                                           "modules_to_save",
                                           "peft_type",
                                           "peft_version",
                                           "qalora_group_size",
                                           "r",
                                           "rank_pattern",
                                           "revision",
                                           "runtime_config",
                                           "target_modules",
                                           "task_type",
                                           "use_rslora"};

// Ways to begin that leave the base as it is: the sum is that of the base and the factors. Of all
// others the base is what was left of it when the adapter was made.
constexpr std::string_view kInitsOfWholeBase[] = {"gaussian", "eva", "orthogonal", "mica"};

void check_init(const JsonObject& config, const Json& value) {
  if (value.is_boolean() || value.is_null()) return;
  if (!value.is_string()) config.refuse_type(kInit, "true, false or a text", value);
  const auto& given = value.get_ref<const std::string&>();
  std::string name = given;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (std::find(std::begin(kInitsOfWholeBase), std::end(kInitsOfWholeBase), name) !=
      std::end(kInitsOfWholeBase)) {
    return;
  }
  config.refuse(kInit, "is '" + shown(given) +
                           "', which changes the base or is not known: the factors do not simply "
                           "add to the base; save the adapter with peft's "
                           "path_initial_model_for_weight_conversion, or merge it with peft "
                           "(merge_and_unload) and convert that");
}

void check_is_plain(const JsonObject& config, const Json& json) {
  const std::string type = config.text("peft_type").value_or("");
  if (type != "LORA") {
    config.refuse("peft_type", "is '" + shown(type) + "'; only LORA is read" + kAdvice);
  }
  for (const std::string& key : config.keys()) {
    const bool is_known =
        std::find(std::begin(kKnownKeys), std::end(kKnownKeys), key) != std::end(kKnownKeys);
    if (is_known || !config.is_on(key)) continue;
    config.refuse(key, std::string("is set, which is not read: it may change what the adapter "
                                   "computes") +
                           kAdvice + "; if it does not, take it out of the file");
  }
  if (json.contains(kInit)) check_init(config, json[kInit]);
}

template <typename Patterns>
double value_of(const Patterns& patterns, const std::string& module, double otherwise) {
  for (const auto& [pattern, value] : patterns) {
    if (pattern.fits(module)) return value;
  }
  return otherwise;
}

}  // namespace

LoraSettings::Patterns LoraSettings::read_patterns(const JsonObject& config, const char* key,
                                                   const std::string& text) {
  Patterns patterns;
  size_t n_regexes = 0;
  const auto object = config.object(key);
  if (!object) return patterns;
  for (const std::string& name : keys_in_file_order(text, key)) {
    const std::optional<double> value = object->number(name);
    if (!value) continue;
    try {
      patterns.emplace_back(ModulePattern(name), *value);
    } catch (const RegexError& error) {
      config.refuse(key, "has '" + shown(name) +
                             "', a pattern that is not read: " + shown(error.what()) + kAdvice);
    }
    n_regexes += patterns.back().first.n_steps() == 0 ? 0 : 1;
    if (n_regexes > kMaxRegexes) {
      config.refuse(key, "has more than " + std::to_string(kMaxRegexes) +
                             " patterns that are not names of modules" + kAdvice);
    }
  }
  return patterns;
}

LoraSettings::LoraSettings(const fs::path& folder)
    : where_(side_file_path(folder, SideFile::kAdapterConfig).string()) {
  const std::string text = read_side_file(folder, SideFile::kAdapterConfig);
  const Json json = parse_json(text, where_, kMaxJsonValues);
  const JsonObject config(json, where_);
  check_is_plain(config, json);
  rank_ = config.required_count("r");
  alpha_ = config.required_number("lora_alpha");
  is_rank_stable_ = config.boolean("use_rslora").value_or(false);
  keeps_ties_ = config.boolean("ensure_weight_tying").value_or(false);
  ranks_ = read_patterns(config, "rank_pattern", text);
  alphas_ = read_patterns(config, "alpha_pattern", text);
}

double LoraSettings::rank_of(const std::string& module) const {
  return value_of(ranks_, module, rank_);
}

double LoraSettings::scale_of(const std::string& module) const {
  const double rank = rank_of(module);
  return value_of(alphas_, module, alpha_) / (is_rank_stable_ ? std::sqrt(rank) : rank);
}

// Adapters of all layers have some hundred modules, and as many patterns at most.
void LoraSettings::check_steps(const std::vector<std::string>& modules) const {
  constexpr double kMostPairs = 1 << 22;
  constexpr double kMostSteps = 1 << 28;
  size_t n_characters = 0;
  for (const std::string& module : modules) n_characters += module.size();
  size_t n_steps = 0;
  for (const Patterns* patterns : {&ranks_, &alphas_}) {
    for (const auto& [pattern, value] : *patterns) n_steps += pattern.n_steps();
  }
  const size_t n_patterns = ranks_.size() + alphas_.size();
  if (static_cast<double>(modules.size()) * static_cast<double>(n_patterns) <= kMostPairs &&
      static_cast<double>(n_characters) * static_cast<double>(n_steps) <= kMostSteps) {
    return;
  }
  throw ProgramError(ExitCode::kInvalidInput,
                     where_ + ": the adapter has " + std::to_string(modules.size()) +
                         " modules, and its config " + std::to_string(n_patterns) +
                         " patterns of ranks and alphas: too many to compare" + kAdvice);
}

}  // namespace cria::converter
