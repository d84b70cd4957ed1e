// Kernels of layers with a state of fixed size, on vectors: written once over the lanes of
// runtime/kernels/lane_kernels.h. Contracts are in runtime/kernels/kernels.h.
#pragma once

#include "runtime/base/features.h"
#include "runtime/kernels/lane_kernels.h"

namespace cria {

template <class Lanes>
struct LaneStates {
  static constexpr size_t kLanes = kSumLanes;
  // Sums held in registers over all keys, so that one addition need not wait for the other.
  static constexpr size_t kParts = 2;

  // Columns of a state: of each part 16, or left of them.
  template <size_t n_parts>
  static void recall_columns(const float* state, const float* key, size_t n_keys, size_t n_values,
                             size_t left, float* out) {
    Lanes sum[n_parts];
    for (size_t p = 0; p < n_parts; ++p) sum[p] = Lanes::all(0.0f);
    for (size_t i = 0; i < n_keys; ++i, state += n_values) {
      const Lanes factor = Lanes::all(key[i]);
      for (size_t p = 0; p < n_parts; ++p) {
        sum[p] = sum[p] + factor * Lanes::load(state + p * kLanes, left);
      }
    }
    for (size_t p = 0; p < n_parts; ++p) Lanes::store(out + p * kLanes, left, sum[p]);
  }

  static void recall_values(const float* state, const float* key, size_t n_keys, size_t n_values,
                            float* out) {
    size_t j = 0;
    for (; j + kParts * kLanes <= n_values; j += kParts * kLanes) {
      recall_columns<kParts>(state + j, key, n_keys, n_values, kLanes, out + j);
    }
    for (; j < n_values; j += kLanes) {
      recall_columns<1>(state + j, key, n_keys, n_values, n_values - j, out + j);
    }
  }

  template <size_t n_parts>
  static void advance_columns(const float* from, const StateUpdate& u, const float* value,
                              size_t n_keys, size_t n_values, size_t left, float* to, float* out) {
    const Lanes decay = Lanes::all(u.decay);
    Lanes sum[n_parts];
    Lanes added[n_parts];
    for (size_t p = 0; p < n_parts; ++p) {
      sum[p] = Lanes::all(0.0f);
      added[p] = Lanes::load(value + p * kLanes, left);
    }
    for (size_t i = 0; i < n_keys; ++i, from += n_values, to += n_values) {
      const Lanes key = Lanes::all(u.key[i]);
      const Lanes query = Lanes::all(u.query[i]);
      for (size_t p = 0; p < n_parts; ++p) {
        const Lanes state = Lanes::load(from + p * kLanes, left) * decay + key * added[p];
        Lanes::store(to + p * kLanes, left, state);
        sum[p] = sum[p] + query * state;
      }
    }
    for (size_t p = 0; p < n_parts; ++p) Lanes::store(out + p * kLanes, left, sum[p]);
  }

  static void advance_state(const float* from, const StateUpdate& u, size_t n_keys, size_t n_values,
                            float* to, float* out) {
    size_t j = 0;
    for (; j + kParts * kLanes <= n_values; j += kParts * kLanes) {
      advance_columns<kParts>(from + j, u, u.value + j, n_keys, n_values, kLanes, to + j, out + j);
    }
    for (; j < n_values; j += kLanes) {
      advance_columns<1>(from + j, u, u.value + j, n_keys, n_values, n_values - j, to + j, out + j);
    }
  }

  static void fill(Kernels* table) {
    if constexpr (!kHasBlocks) return;
    table->states = {.recall_values = recall_values, .advance_state = advance_state};
  }
};

}  // namespace cria
