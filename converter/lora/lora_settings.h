// What an adapter's config says of all its modules.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "converter/json_input.h"
#include "converter/lora/module_pattern.h"

namespace cria::converter {

class LoraSettings {
 public:
  // folder has an adapter_config.json. Throws ProgramError that names the key: also where the
  // adapter is more than a sum of matrices, or is none of the base's as it is.
  explicit LoraSettings(const std::filesystem::path& folder);

  // module: "model.layers.0.self_attn.q_proj".
  [[nodiscard]] double rank_of(const std::string& module) const;
  [[nodiscard]] double scale_of(const std::string& module) const;
  // Whether what changes the embedding changes the output layer that is tied to it, too.
  [[nodiscard]] bool keeps_ties() const { return keeps_ties_; }

  // Throws ProgramError where comparing so many modules with the patterns takes too long.
  void check_steps(const std::vector<std::string>& modules) const;

 private:
  // The first that fits counts.
  using Patterns = std::vector<std::pair<ModulePattern, double>>;
  static Patterns read_patterns(const JsonObject& config, const char* key, const std::string& text);

  std::string where_;
  double rank_ = 0;
  double alpha_ = 0;
  bool is_rank_stable_ = false;
  bool keeps_ties_ = false;
  Patterns ranks_;
  Patterns alphas_;
};

}  // namespace cria::converter
