// A config while it is made: parts that can grow, and a view of them.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "quant/model_layout.h"

namespace cria {

struct ConfigParts {
  format::ModelScalars model = {};
  std::vector<format::LayerKind> kinds;
  std::vector<uint8_t> layers;  // the kind of each
  std::vector<format::MatrixCount> counts;

  // Valid until a part changes.
  [[nodiscard]] Config view() {
    model.n_layers = static_cast<uint32_t>(layers.size());
    model.n_kinds = static_cast<uint32_t>(kinds.size());
    model.n_counts = static_cast<uint32_t>(counts.size());
    return {&model, kinds, layers, counts};
  }

  // Counts the formats that matrices are to have: format_of(spec), spec as of f32.
  template <typename FormatOf>
  void count_formats(const FormatOf& format_of) {
    std::map<std::tuple<uint8_t, uint16_t, uint8_t>, uint32_t> n;
    TensorWalk walk(view());
    for (TensorSpec spec = {}; walk.next({format::NumberFormat::kF32, 0}, &spec);) {
      if (spec.form != TensorForm::kMatrix) continue;
      const auto place = static_cast<uint8_t>(place_of(format_of(spec)));
      ++n[{spec.kind, static_cast<uint16_t>(spec.role), place}];
    }
    counts.clear();
    for (const auto& [what, count] : n) {
      const auto& [kind, role, place] = what;
      counts.push_back({role, kind, place, count});
    }
  }
};

}  // namespace cria
