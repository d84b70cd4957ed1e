#include "runtime/decode/layer_step.h"

namespace cria {
namespace {

// Adds to the rows of each segment the bias of its matrix.
void add_bias(const Step& s, std::span<const Segment> segments, const LinearCall& call) {
  if (call.tensor->bias == nullptr) return;
  const size_t width = call.tensor->shape.rows;
  for (const Segment& segment : segments) {
    const float* const bias = call.tensor->bias + segment.index * width;
    float* y = call.y + segment.first_row * width;
    for (size_t i = 0; i < segment.n_rows; ++i, y += width) {
      s.kernels.add_scaled(y, bias, 1.0f, width);
    }
  }
}

}  // namespace

Status linear(const Step& s, const float* x, std::initializer_list<LinearCall> calls) {
  const Segment all = {0, 0, static_cast<uint32_t>(s.rows.size())};
  const std::span<const Segment> segments = {&all, 1};
  CRIA_TRY(s.backend.linear(s.linear, x, segments, {calls.begin(), calls.size()}));
  for (const LinearCall& call : calls) add_bias(s, segments, call);
  return Status::kOk;
}

void normalize(const Step& s, const Tensor& weight, const float* x, float* y) {
  const size_t width = s.config.d_model;
  parallel_ranges(s.threads, s.rows.size(), [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      s.kernels.rms_norm(x + i * width, weight.floats(), width, s.config.rms_epsilon,
                         y + i * width);
    }
  });
}

}  // namespace cria
