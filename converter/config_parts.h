// A config while it is made: parts that can grow, and a view of them.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "quant/model/model_layout.h"

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

  // Takes the kinds of all layers one by one; those that are alike become one.
  void set_layers(std::span<const format::LayerKind> all) {
    kinds.clear();
    layers.clear();
    for (const format::LayerKind& kind : all) {
      const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& other) {
        return std::memcmp(&kind, &other, sizeof kind) == 0;
      });
      layers.push_back(static_cast<uint8_t>(known - kinds.begin()));
      if (known == kinds.end()) kinds.push_back(kind);
    }
  }

  // Counts the formats that matrices are to have: format_of(spec), spec as of f32.
  template <typename FormatOf>
  void count_formats(const FormatOf& format_of) {
    count([&](size_t, const TensorSpec& spec) { return format_of(spec); });
  }
  // The same of formats of all tensors, in their order; those of vectors say nothing.
  void count_each(std::span<const MatrixFormat> formats) {
    count([&](size_t place, const TensorSpec&) { return formats[place]; });
  }

 private:
  template <typename FormatAt>
  void count(const FormatAt& format_at) {
    std::map<std::tuple<uint8_t, uint16_t, uint8_t>, uint32_t> n;
    TensorWalk walk(view());
    TensorSpec spec = {};
    for (size_t i = 0; walk.next({format::NumberFormat::kF32, 0}, &spec); ++i) {
      if (spec.form != TensorForm::kMatrix) continue;
      const auto place = static_cast<uint8_t>(place_of(format_at(i, spec)));
      ++n[{spec.kind, static_cast<uint16_t>(spec.role), place}];
    }
    counts.clear();
    for (const auto& [what, found] : n) {
      const auto& [kind, role, place] = what;
      counts.push_back({role, kind, place, found});
    }
  }
};

}  // namespace cria
