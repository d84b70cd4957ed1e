// Kernels that only some families need, on vectors: written once over the lanes of
// runtime/kernels/lane_kernels.h, whose first half they use. Contracts are in
// runtime/kernels/kernels.h.
#pragma once

#include "runtime/base/features.h"
#include "runtime/kernels/lane_kernels.h"

namespace cria {

template <class Lanes>
struct LaneVariants {
  static constexpr size_t kLanes = kSumLanes;

  static Lanes one() { return Lanes::all(1.0f); }
  static Lanes exp(Lanes x) { return LaneKernels<Lanes>::exp(x); }
  // 1 + exp(-x), by which a product with the sigmoid divides.
  static Lanes below(Lanes x) { return one() + exp(Lanes::negative(x)); }

  static Lanes within(Lanes x, Lanes limit) {
    const Lanes up_to = Lanes::lesser(x, limit);
    return Lanes::negative(Lanes::lesser(Lanes::negative(up_to), limit));
  }

  static void layer_norm(const float* x, const float* weight_bias, size_t n, float epsilon,
                         float* y) {
    const auto count = static_cast<float>(n);
    Lanes sum = Lanes::all(0.0f);
    for (size_t i = 0; i < n; i += kLanes) sum = sum + Lanes::load(x + i, n - i);
    const Lanes mean = Lanes::all(Lanes::sum(sum) / count);
    Lanes squares = Lanes::all(0.0f);
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes d = Lanes::load(x + i, n - i) - mean;
      squares = squares + Lanes::first(d * d, n - i);
    }
    const Lanes r = Lanes::all(1.0f / Lanes::root(Lanes::sum(squares) / count + epsilon));
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes d = (Lanes::load(x + i, n - i) - mean) * r;
      Lanes::store(
          y + i, n - i,
          d * Lanes::load(weight_bias + i, n - i) + Lanes::load(weight_bias + n + i, n - i));
    }
  }

  static Lanes silu(Lanes v) { return v / below(v); }
  static Lanes gelu(Lanes v) {
    const Lanes cube = (v * v) * v * Lanes::all(kGeluCube);
    return v / below((v + cube) * Lanes::all(kGeluSlope));
  }
  static Lanes relu_squared(Lanes v) {
    const Lanes r = Lanes::zero_below(v, Lanes::all(0.0f), v);
    return r * r;
  }

  template <Lanes (*act)(Lanes)>
  static void activate(float* gate, const float* up, size_t n, float /*alpha*/, float /*limit*/) {
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes v = act(Lanes::load(gate + i, n - i));
      Lanes::store(gate + i, n - i, up == nullptr ? v : v * Lanes::load(up + i, n - i));
    }
  }

  static void clamped_swiglu(float* gate, const float* up, size_t n, float alpha, float limit) {
    const Lanes most = Lanes::all(limit);
    const Lanes slope = Lanes::all(alpha);
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes g = Lanes::lesser(Lanes::load(gate + i, n - i), most);
      const Lanes w = within(Lanes::load(up + i, n - i), most);
      Lanes::store(gate + i, n - i, ((w + one()) * g) / below(slope * g));
    }
  }

  static void sigmoid_mul(float* y, const float* gate, size_t n) {
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes divisor = below(Lanes::load(gate + i, n - i));
      Lanes::store(y + i, n - i, Lanes::load(y + i, n - i) / divisor);
    }
  }

  static void cap(float* x, size_t n, float cap) {
    const Lanes c = Lanes::all(cap);
    for (size_t i = 0; i < n; i += kLanes) {
      const Lanes v = Lanes::load(x + i, n - i) / c;
      const Lanes e = exp(v + v);
      Lanes::store(x + i, n - i, c * ((e - one()) / (e + one())));
    }
  }

  static void clip(float* x, size_t n, float limit) {
    for (size_t i = 0; i < n; i += kLanes) {
      Lanes::store(x + i, n - i, within(Lanes::load(x + i, n - i), Lanes::all(limit)));
    }
  }

  static void fill(Kernels* table) {
    if constexpr (!kHasVariants) return;
    table->variants = {
        .layer_norm = layer_norm,
        .activate = {activate<silu>, activate<gelu>, activate<relu_squared>, clamped_swiglu},
        .sigmoid_mul = sigmoid_mul,
        .cap = cap,
        .clip = clip,
    };
  }
};

}  // namespace cria
