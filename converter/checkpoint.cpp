#include "converter/checkpoint.h"

#include <algorithm>

namespace cria::converter {

std::string Checkpoint::types_text() const {
  std::map<std::string, uint64_t> n_values;
  for (const auto& [name, tensor] : tensors_) {
    n_values[tensor->type_name()] += tensor->n_rows() * tensor->n_cols();
  }
  std::vector<std::pair<uint64_t, std::string>> types;
  types.reserve(n_values.size());
  for (const auto& [type, n] : n_values) types.emplace_back(n, type);
  std::sort(types.rbegin(), types.rend());
  std::string text;
  for (const auto& [n, type] : types) text += (text.empty() ? "" : ", ") + type;
  return text;
}

}  // namespace cria::converter
