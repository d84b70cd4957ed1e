// Rows of a step that continue one session's blocks of state.
#pragma once

#include "runtime/blocks/layer_step.h"

namespace cria::recurrences {

// Rows of one session, one after the other, up to the next position that has a slot of its own.
struct Run {
  size_t first;
  size_t n;
  bool is_new;  // nothing is before its first row
  uint32_t read_slot;
  uint32_t write_slot;
  const Layer& layer;
  const LayerStates& states;

  // A part of what the layer keeps of the positions before them; null: there are none.
  [[nodiscard]] const float* before(size_t part) const {
    return is_new ? nullptr : block(part, read_slot);
  }
  // Of the positions before the next one. May be what is before.
  [[nodiscard]] float* behind(size_t part) const { return block(part, write_slot); }

  [[nodiscard]] float* block(size_t part, uint32_t slot) const {
    const KvCache& cache = states.caches[layer.state_kind];
    return reinterpret_cast<float*>(cache.at(part, cache.row(layer.state_layer, 0, slot)));
  }
};

// The run that begins at a row.
[[nodiscard]] Run run_at(const Step& s, const Layer& layer, size_t first);

// Calls body(run) for all of a step.
template <typename Body>
void for_runs(const Step& s, const Layer& layer, const Body& body) {
  for (size_t first = 0; first < s.n();) {
    const Run run = run_at(s, layer, first);
    body(run);
    first += run.n;
  }
}

}  // namespace cria::recurrences
