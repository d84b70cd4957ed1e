#include "runtime/blocks/kv_cache.h"

namespace cria {

void choose_rope_rates(const format::ModelScalars& model, const Weights& weights, uint32_t context,
                       LayerStates* states) {
  const Tensor* tensor = weights.find(format::TensorRole::kRope);
  const float* rates = tensor != nullptr ? tensor->values() : nullptr;
  for (uint32_t i = 0; i < model.n_rope_tables; ++i) {
    const format::RopeTable& table = model.rope_tables[i];
    const bool has_two = table.original_context != 0;
    const bool is_long = has_two && context > table.original_context;
    states->rope_rates[i] = rates + (is_long ? table.n_pairs : 0);
    rates += has_two ? 2 * table.n_pairs : table.n_pairs;
  }
}

KvCache make_cache(const Config& config, size_t kind, const PlanInput& in, Carver* carver) {
  const StateLayout layout = lay_out_state(config, kind, in, carver);
  KvCache cache = {};
  for (size_t i = 0; i < layout.parts.n; ++i) {
    cache.rows[i] = layout.memory[i];
    cache.row_bytes[i] = layout.parts.parts[i].row_bytes;
    cache.values[i] = layout.parts.parts[i].values;
  }
  cache.n_parts = layout.parts.n;
  cache.n_layers = layers_of(config, kind);
  cache.n_heads = layout.parts.n_heads;
  cache.n_positions = layout.n_positions;
  cache.kv_format = in.kv_format;
  cache.keeps = layout.parts.keeps;
  return cache;
}

}  // namespace cria
