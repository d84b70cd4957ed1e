#include "runtime/blocks/per_layer/per_layer.h"

#include "quant/blocks/per_layer_format.h"

namespace cria::per_layer {

using format::TensorRole;

float* table_rows(const Step& s, const format::LayerKind& kind) {
  Carver carver(s.scratch);
  return lay_out(s.model(), kind, s.shape, &carver).rows;
}

void read_table(const Step& s, const Weights& weights, uint32_t layer) {
  const Tensor& table = *weights.find(TensorRole::kPerLayerTable);
  float* const rows = table_rows(s, *weights.layers[layer].kind);
  parallel_for(s.threads, Even{s.n()}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      const size_t row = table_row(s.model(), s.rows[i].token, layer);
      unpack_row(table.shape, table.codes, table.scales, row, rows + i * table.shape.cols);
    }
  });
}

namespace {

// rows = (projected * input multiplier, normalized, + rows * table multiplier) * sum multiplier.
void add_projected(const Step& s, const Tensor& norm, float* projected, float* rows) {
  const format::ModelScalars& m = s.model();
  const size_t width = m.per_layer_width;
  parallel_for(s.threads, Even{s.n()}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      float* const x = projected + i * width;
      float* const row = rows + i * width;
      for (size_t d = 0; d < width; ++d) x[d] *= m.per_layer_input_multiplier;
      s.kernels.rms_norm(x, norm.values(), width, m.norm_epsilon, x);
      s.kernels.add_scaled(x, row, m.per_layer_table_multiplier, width);
      for (size_t d = 0; d < width; ++d) row[d] = x[d] * m.per_layer_sum_multiplier;
    }
  });
}

}  // namespace

Status forward(const Step& s, const Weights& weights, uint32_t layer, float* out) {
  const Layer& l = weights.layers[layer];
  const format::LayerKind& k = *l.kind;
  Carver carver(s.scratch);
  const Scratch t = lay_out(s.model(), k, s.shape, &carver);
  const Segment of_layer = {layer, 0, static_cast<uint32_t>(s.n())};
  CRIA_TRY(linear(s, s.embedded, {&of_layer, 1},
                  {{weights.find(TensorRole::kPerLayerProjection), t.gate}}));
  add_projected(s, *weights.find(TensorRole::kPerLayerNorm), t.gate, t.rows);
  CRIA_TRY(linear(s, s.x, {{l.find(TensorRole::kPerLayerGate), t.gate}}));
  for_values(s, s.n() * s.model().per_layer_width, [&](size_t begin, size_t end) {
    s.kernels.variants.activate[k.activation - 1](t.gate + begin, t.rows + begin, end - begin, 0,
                                                  0);
  });
  return linear(s, t.gate, {{l.find(TensorRole::kPerLayerOut), out}});
}

}  // namespace cria::per_layer
