#include "runtime/blocks/per_layer/per_layer.h"

#include "quant/blocks/per_layer_format.h"

namespace cria::per_layer {

using format::TensorRole;

namespace {

Scratch scratch_of(const Step& s, const Layer& layer) {
  Carver carver(s.scratch);
  return lay_out(s.model(), *layer.kind, s.shape, &carver);
}

// inputs = (the projected, normalized, + inputs * table multiplier) * sum multiplier.
void add_projected(const Step& s, const Tensor& norm, float* projected, float* inputs) {
  const format::ModelScalars& m = s.model();
  const size_t width = m.per_layer_width;
  parallel_ranges(s.threads, s.n(), [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin * width; i < end * width; ++i) {
      projected[i] *= m.per_layer_input_multiplier;
    }
    for (size_t row = begin; row < end; ++row) {
      float* const x = projected + row * width;
      s.kernels.rms_norm(x, norm.values(), width, m.norm_epsilon, x);
    }
    s.kernels.add_scaled(projected + begin * width, inputs + begin * width,
                         m.per_layer_table_multiplier, (end - begin) * width);
    for (size_t i = begin * width; i < end * width; ++i) {
      inputs[i] = projected[i] * m.per_layer_sum_multiplier;
    }
  });
}

}  // namespace

float* inputs(const Step& s, const Layer& layer) { return scratch_of(s, layer).inputs; }

void read_table(const Step& s, const Weights& weights, uint32_t layer) {
  const Tensor& table = *weights.find(TensorRole::kPerLayerTable);
  float* const rows = inputs(s, weights.layers[layer]);
  parallel_ranges(s.threads, s.n(), [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      const size_t row = size_t{s.rows[i].token} * s.model().n_layers + layer;
      unpack_row(table.shape, table.codes, table.scales, row, rows + i * table.shape.cols);
    }
  });
}

Status forward(const Step& s, const Weights& weights, uint32_t layer, float* out) {
  const Layer& l = weights.layers[layer];
  const format::LayerKind& k = *l.kind;
  const Scratch t = scratch_of(s, l);
  const Segment of_layer = {layer, 0, static_cast<uint32_t>(s.n())};
  const Tensor* const projection = weights.find(TensorRole::kPerLayerProjection);
  CRIA_TRY(linear(s, s.embedded, {&of_layer, 1}, {{projection, t.gate}}));
  add_projected(s, *weights.find(TensorRole::kPerLayerNorm), t.gate, t.inputs);
  CRIA_TRY(linear(s, s.x, {{l.find(TensorRole::kPerLayerGate), t.gate}}));
  for_values(s, s.n() * s.model().per_layer_width, [&](size_t begin, size_t end) {
    s.kernels.variants.activate[k.activation - 1](t.gate + begin, t.inputs + begin, end - begin, 0,
                                                  0);
  });
  return linear(s, t.gate, {{l.find(TensorRole::kPerLayerOut), out}});
}

}  // namespace cria::per_layer
