// What rank_pattern and alpha_pattern of an adapter's config name: a regex, as Python reads it,
// for the end of a module's name. It begins where a part of the name does.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "converter/regex_program.h"
#include "converter/regex_syntax.h"

namespace cria::converter {

class ModulePattern {
 public:
  // Throws RegexError for what is not read.
  explicit ModulePattern(std::string text);

  // module: "model.layers.0.self_attn.q_proj".
  [[nodiscard]] bool fits(std::string_view module) const;
  // What each character of a name costs; 0 for a name of a module, which is compared at once.
  [[nodiscard]] size_t n_steps() const { return program_.instructions.size(); }

 private:
  [[nodiscard]] bool name_fits(std::string_view module) const;
  [[nodiscard]] bool regex_fits(std::string_view module) const;

  bool is_whole_ = false;  // begins with ^
  std::string text_;
  std::optional<Regex> regex_;  // none: text_ is a name
  RegexProgram program_;
};

}  // namespace cria::converter
