// What the delta rule and state spaces have alike: projections, their convolution, how much a
// position decays what is kept of those before it, and the loop over heads.
#pragma once

#include "quant/blocks/recurrence_formats.h"
#include "runtime/blocks/recurrence/convolution.h"

namespace cria::recurrences {

// q, k, v, gate and decay, and of the delta rule beta, from the layer's input.
[[nodiscard]] Status project(const Step& s, const Layer& layer, const Scratch& t, const float* in);

// Convolves q, k and v. With unit lengths, each head of q and k is made as long as 1, and q is
// divided by the root of key_dim.
void convolve_heads(const Step& s, const Layer& layer, const Scratch& t, bool has_unit_lengths);

// How one position goes on: step is softplus(...), decay what is left of the state.
struct Pace {
  float step;
  float decay;
};

// One value head of one row.
struct HeadRow {
  const float* from;   // its state before; may be to
  float* to;           // and after
  const float* query;  // [key_dim]
  const float* key;    // [key_dim]
  float* value;        // [value_dim], then what the query brings back
  float* gate;         // [value_dim]
  Pace pace;
  size_t row;
  size_t head;
};

// A head's state of zeros, where there is none before.
const float* state_before(const Run& run, size_t head, size_t n_values);

[[nodiscard]] Pace pace_of(float projected, float bias, float decay);

// Calls body(HeadRow) for each row of each value head, rows of a session in the order of their
// positions; heads are shared out over the threads.
template <typename Body>
void for_heads(const Step& s, const Layer& layer, const Scratch& t, const Body& body) {
  const format::LayerKind& k = *layer.kind;
  const float* const biases = layer.find(format::TensorRole::kDecayBias)->values();
  const float* const decays = layer.find(format::TensorRole::kDecay)->values();
  const size_t n_heads = k.n_value_heads;
  const size_t n_values = size_t{k.key_dim} * k.value_dim;
  const size_t of_key = n_heads / k.n_key_heads;
  parallel_for(s.threads, Even{n_heads}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t head = begin; head < end; ++head) {
      for_runs(s, layer, [&](const Run& run) {
        const float* from = state_before(run, head, n_values);
        float* const to = run.behind(kStates) + head * n_values;
        for (size_t row = run.first; row < run.first + run.n; ++row) {
          const size_t key = (row * k.n_key_heads + head / of_key) * k.key_dim;
          const size_t value = (row * n_heads + head) * k.value_dim;
          const float projected = t.decay[row * n_heads + head];
          body(HeadRow{from, to, t.q + key, t.k + key, t.v + value, t.gate + value,
                       pace_of(projected, biases[head], decays[head]), row, head});
          from = to;
        }
      });
    }
  });
}

}  // namespace cria::recurrences
