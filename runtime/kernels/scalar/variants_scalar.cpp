// Scalar reference of what only some families compute. Naive for ever. Contracts are in
// runtime/kernels/kernels.h.
#include <cmath>

#include "runtime/base/features.h"
#include "runtime/base/scalar_math.h"
#include "runtime/kernels/scalar/scalar.h"

namespace cria {
namespace {

float below(float x) { return 1.0f + exp_f32(-x); }

float within(float x, float limit) {
  const float up_to = x < limit ? x : limit;
  return -(-up_to < limit ? -up_to : limit);
}

float silu(float v) { return v / below(v); }

float gelu(float v) {
  const float cube = (v * v) * v * kGeluCube;
  return v / below((v + cube) * kGeluSlope);
}

float relu_squared(float v) {
  const float r = v < 0.0f ? 0.0f : v;
  return r * r;
}

template <float (*act)(float)>
void activate(float* gate, const float* up, size_t n, float /*alpha*/, float /*limit*/) {
  for (size_t i = 0; i < n; ++i) {
    const float v = act(gate[i]);
    gate[i] = up == nullptr ? v : v * up[i];
  }
}

void clamped_swiglu(float* gate, const float* up, size_t n, float alpha, float limit) {
  for (size_t i = 0; i < n; ++i) {
    const float g = gate[i] < limit ? gate[i] : limit;
    gate[i] = ((within(up[i], limit) + 1.0f) * g) / below(alpha * g);
  }
}

void layer_norm(const float* x, const float* weight_bias, size_t n, float epsilon, float* y) {
  float lanes[kSumLanes] = {};
  for (size_t i = 0; i < n; ++i) lanes[i % kSumLanes] += x[i];
  const float mean = sum_lanes(lanes) / static_cast<float>(n);
  float squares[kSumLanes] = {};
  for (size_t i = 0; i < n; ++i) squares[i % kSumLanes] += (x[i] - mean) * (x[i] - mean);
  const float r = 1.0f / std::sqrt(sum_lanes(squares) / static_cast<float>(n) + epsilon);
  for (size_t i = 0; i < n; ++i) y[i] = ((x[i] - mean) * r) * weight_bias[i] + weight_bias[n + i];
}

void sigmoid_mul(float* y, const float* gate, size_t n) {
  for (size_t i = 0; i < n; ++i) y[i] = y[i] / below(gate[i]);
}

void cap(float* x, size_t n, float most) {
  for (size_t i = 0; i < n; ++i) {
    const float v = x[i] / most;
    const float e = exp_f32(v + v);
    x[i] = most * ((e - 1.0f) / (e + 1.0f));
  }
}

void clip(float* x, size_t n, float limit) {
  for (size_t i = 0; i < n; ++i) x[i] = within(x[i], limit);
}

}  // namespace

constinit const VariantKernels kScalarVariants = {
    .layer_norm = layer_norm,
    .activate = {activate<silu>, activate<gelu>, activate<relu_squared>, clamped_swiglu},
    .sigmoid_mul = sigmoid_mul,
    .cap = cap,
    .clip = clip,
};

}  // namespace cria
