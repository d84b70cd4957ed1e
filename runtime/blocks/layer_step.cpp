#include "runtime/blocks/layer_step.h"

#include "runtime/base/features.h"

namespace cria {

Status linear(const Step& s, const float* x, std::span<const Segment> segments,
              std::initializer_list<LinearCall> wanted) {
  constexpr size_t kMost = 4;
  LinearCall calls[kMost];
  size_t n = 0;
  for (const LinearCall& call : wanted) {
    if (call.tensor != nullptr) calls[n++] = call;
  }
  const LinearTools tools = {s.kernels, s.threads, s.quantized, s.of_backend};
  CRIA_TRY(s.backend.linear(tools, x, segments, {calls, n}));
  for (const LinearCall& call : std::span<const LinearCall>(calls, n)) {
    if (call.tensor->bias == nullptr) continue;
    const size_t width = call.tensor->shape.rows;
    for (const Segment& segment : segments) {
      const float* const bias = call.tensor->bias + segment.index * width;
      float* const y = call.y + segment.first_row * width;
      for (size_t i = 0; i < segment.n_rows; ++i) {
        s.kernels.add_scaled(y + i * width, bias, 1.0f, width);
      }
    }
  }
  return Status::kOk;
}

Status linear(const Step& s, const float* x, std::initializer_list<LinearCall> calls) {
  const Segment all = {0, 0, static_cast<uint32_t>(s.n())};
  return linear(s, x, {&all, 1}, calls);
}

void normalize(const Step& s, format::Norm norm, float epsilon, const Tensor& weight,
               const float* x, float* y) {
  const size_t width = s.model().d_model;
  const bool has_mean = kHasVariants && norm == format::Norm::kLayerNorm;
  const auto kernel = has_mean ? s.kernels.variants.layer_norm : s.kernels.rms_norm;
  parallel_for(s.threads, Even{s.n()}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      kernel(x + i * width, weight.values(), width, epsilon, y + i * width);
    }
  });
}

void normalize_heads(const Step& s, float epsilon, const Tensor* weight, size_t n_heads,
                     size_t head_dim, float* x) {
  if (weight == nullptr) return;
  parallel_for(s.threads, Even{s.n() * n_heads}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      float* head = x + i * head_dim;
      s.kernels.rms_norm(head, weight->values(), head_dim, epsilon, head);
    }
  });
}

void rotate(const Step& s, uint8_t table, size_t n_heads, size_t head_dim, float* x) {
  if (table == format::kNoTable) return;
  const format::ModelScalars& m = s.model();
  size_t first = 0;
  for (size_t i = 0; i < table; ++i) first += 2 * m.rope_tables[i].n_pairs;
  const size_t per_row = size_t{2} * rope_pairs(m);
  const size_t n_pairs = m.rope_tables[table].n_pairs;
  // Heads that are turned as a whole stand side by side.
  const size_t at_once = 2 * n_pairs == head_dim ? n_heads : 1;
  parallel_for(s.threads, Even{s.n()}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      const float* cosines = s.cosines + i * per_row + first;
      for (size_t head = 0; head < n_heads; head += at_once) {
        s.kernels.rope(x + (i * n_heads + head) * head_dim, at_once, 2 * n_pairs, cosines,
                       cosines + n_pairs);
      }
    }
  });
}

}  // namespace cria
