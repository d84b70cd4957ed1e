#include "runtime/blocks/experts/experts.h"

#if CRIA_WITH_EXPERTS

#include <cstring>

#include "quant/blocks/feed_forward_formats.h"
#include "runtime/base/scalar_math.h"
#include "runtime/blocks/dense/dense.h"
#include "runtime/blocks/experts/choose.h"

namespace cria::experts {

using format::TensorRole;

namespace {

static_assert(sizeof(Segment) == kSegmentBytes);

const float* values_or_null(const Tensor* tensor) {
  return tensor != nullptr ? tensor->values() : nullptr;
}

// What a branch reads: the layer's input, or the residual stream through a norm of its own.
const float* input_of(const Step& s, const Layer& layer, TensorRole role, format::Norm norm,
                      float epsilon, const float* in, float* stream) {
  const Tensor* const weight = layer.find(role);
  if (weight == nullptr) return in;
  normalize(s, norm, epsilon, *weight, s.x, stream);
  return stream;
}

// Chooses experts for each row.
Status route(const Step& s, const Layer& layer, const Scratch& t, const float* in) {
  const LayerKind& k = *layer.kind;
  const float* const read = input_of(s, layer, TensorRole::kRouterNorm, format::Norm::kRms,
                                     k.inner_epsilon, in, t.stream);
  CRIA_TRY(linear(s, read, {{layer.find(TensorRole::kRouter), t.scores}}));
  const Router router = {k, values_or_null(layer.find(TensorRole::kChoiceBias)),
                         values_or_null(layer.find(TensorRole::kExpertScale))};
  parallel_for(s.threads, Even{s.n()}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      choose(s.kernels, router, t.scores + i * k.n_experts, t.ranked + i * k.n_experts,
             t.chosen + i * k.n_chosen, t.weights + i * k.n_chosen);
    }
  });
  return Status::kOk;
}

// Gives slots to what was chosen, by experts, then rows; the segments are those of experts that
// have any.
std::span<const Segment> share_slots(const Step& s, const LayerKind& k, const Scratch& t) {
  const size_t n = s.n() * k.n_chosen;
  std::memset(t.n_slots, 0, k.n_experts * sizeof(uint32_t));
  for (size_t i = 0; i < n; ++i) ++t.n_slots[t.chosen[i]];
  auto* const segments = reinterpret_cast<Segment*>(t.segments);
  size_t n_segments = 0;
  uint32_t first = 0;
  for (uint32_t expert = 0; expert < k.n_experts; ++expert) {
    const uint32_t n_rows = t.n_slots[expert];
    t.n_slots[expert] = first;  // where its next row goes
    if (n_rows != 0) segments[n_segments++] = {expert, first, n_rows};
    first += n_rows;
  }
  for (size_t i = 0; i < n; ++i) t.slots[i] = t.n_slots[t.chosen[i]]++;
  return {segments, n_segments};
}

void gather(const Step& s, const LayerKind& k, const Scratch& t, const float* in) {
  const size_t width = s.model().d_model;
  parallel_for(s.threads, Even{s.n()}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin * k.n_chosen; i < end * k.n_chosen; ++i) {
      std::memcpy(t.rows + t.slots[i] * width, in + i / k.n_chosen * width, width * sizeof(float));
    }
  });
}

// out = what a row's experts gave, by their weights. The order is that of the row's choice,
// whatever rows came with it.
void add_up(const Step& s, const LayerKind& k, const Scratch& t, float* out) {
  const size_t width = s.model().d_model;
  parallel_for(s.threads, Even{s.n()}, [&](size_t begin, size_t end, size_t /*task*/) {
    std::memset(out + begin * width, 0, (end - begin) * width * sizeof(float));
    for (size_t i = begin * k.n_chosen; i < end * k.n_chosen; ++i) {
      s.kernels.add_scaled(out + i / k.n_chosen * width, t.rows + t.slots[i] * width, t.weights[i],
                           width);
    }
  });
}

Status multiply(const Step& s, const Layer& layer, const Scratch& t, const float* in, float* out) {
  const LayerKind& k = *layer.kind;
  const std::span<const Segment> segments = share_slots(s, k, t);
  gather(s, k, t, in);
  Carver carver(t.hidden);
  const Hidden h = lay_out_hidden(k, s.shape, &carver);
  CRIA_TRY(linear(
      s, t.rows, segments,
      {{layer.find(TensorRole::kExpertGate), h.gate}, {layer.find(TensorRole::kExpertUp), h.up}}));
  const size_t n_values = rows_of(segments) * k.expert_ff;
  const float* const hidden = dense::activate(s, k, h.gate, h.up, n_values);
  CRIA_TRY(linear(s, hidden, segments, {{layer.find(TensorRole::kExpertDown), t.rows}}));
  add_up(s, k, t, out);
  return Status::kOk;
}

// Multiplies each row of y by how open the gate is to that of in.
void open_gate(const Step& s, const float* gate, const float* in, float* y) {
  const size_t width = s.model().d_model;
  parallel_for(s.threads, Even{s.n()}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      double sum = 0;
      for (size_t d = 0; d < width; ++d) {
        sum += static_cast<double>(gate[d]) * static_cast<double>(in[i * width + d]);
      }
      const float open = 1.0f / (1.0f + exp_f32(-static_cast<float>(sum)));
      for (size_t d = 0; d < width; ++d) y[i * width + d] *= open;
    }
  });
}

// Normalizes what a branch gives where the kind says so.
void normalize_branch(const Step& s, const Layer& layer, TensorRole role, float* y) {
  const Tensor* const weight = layer.find(role);
  if (weight == nullptr) return;
  const LayerKind& k = *layer.kind;
  normalize(s, static_cast<format::Norm>(k.norm), k.norm_epsilon, *weight, y, y);
}

// out += the MLP beside the experts, in memory that they are done with.
Status add_beside(const Step& s, const Layer& layer, const Scratch& t, const float* in,
                  float* out) {
  const LayerKind& k = *layer.kind;
  float* const y = t.rows;
  Carver carver(t.hidden);
  const dense::Scratch hidden = dense::lay_out(s.model(), k, s.shape, &carver);
  CRIA_TRY(dense::multiply(s, layer, hidden, in, y));
  if (const Tensor* gate = layer.find(TensorRole::kSharedGate)) {
    open_gate(s, gate->values(), in, y);
  }
  normalize_branch(s, layer, TensorRole::kSharedOutNorm, y);
  for_values(s, s.n() * s.model().d_model, [&](size_t begin, size_t end) {
    s.kernels.add_scaled(out + begin, y + begin, 1.0f, end - begin);
  });
  return Status::kOk;
}

}  // namespace

Status forward(const Step& s, const Layer& layer, const float* in, float* out) {
  const LayerKind& k = *layer.kind;
  Carver carver(s.scratch);
  const Scratch t = lay_out(s.model(), k, s.shape, &carver);
  CRIA_TRY(route(s, layer, t, in));
  const float* const read =
      input_of(s, layer, TensorRole::kExpertNorm, static_cast<format::Norm>(k.norm), k.norm_epsilon,
               in, t.stream);
  CRIA_TRY(multiply(s, layer, t, read, out));
  normalize_branch(s, layer, TensorRole::kExpertOutNorm, out);
  return k.d_ff != 0 ? add_beside(s, layer, t, in, out) : Status::kOk;
}

}  // namespace cria::experts

#endif  // CRIA_WITH_EXPERTS
