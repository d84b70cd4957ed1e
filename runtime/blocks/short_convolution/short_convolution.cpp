#include "runtime/blocks/short_convolution/short_convolution.h"

#if CRIA_WITH_RECURRENT

#include "quant/blocks/recurrence_formats.h"

namespace cria::short_convolution {

using format::TensorRole;

namespace {

// Channels [begin, end) of all rows.
struct Channels {
  size_t begin;
  size_t end;
};

// Rows of one session, one behind the other.
struct Run {
  size_t first;
  size_t n;
  const float* before;  // [taps - 1][width] of the positions before them; null: there are none
  float* behind;        // the same of the positions before the next one; may be before
};

struct Weights {
  const float* taps;  // [n_taps][width]
  const float* bias;  // [width] or null
  size_t n_taps;
  size_t width;
};

// What the convolution reads so many rows before a row of a run; null: zeros.
const float* input_of(const Run& run, const Weights& w, const float* u, size_t row, size_t back) {
  if (back <= row) return u + (run.first + row - back) * w.width;
  const size_t missing = back - row;  // 1: the newest that is kept
  return run.before != nullptr ? run.before + (w.n_taps - 1 - missing) * w.width : nullptr;
}

// q = q * (convolution(u) + bias), taps from the oldest row to the newest; sums is scratch. Zeros
// are multiplied too: a weight that is no number leaves one wherever a chunk begins.
void gate_row(const Run& run, const Weights& w, const Scratch& t, size_t row, Channels c) {
  const size_t at = (run.first + row) * w.width;
  float* const sums = t.v + at;
  for (size_t tap = 0; tap < w.n_taps; ++tap) {
    const float* const input = input_of(run, w, t.k, row, w.n_taps - 1 - tap);
    const float* const weights = w.taps + tap * w.width;
    for (size_t i = c.begin; i < c.end; ++i) {
      const float product = weights[i] * (input != nullptr ? input[i] : 0.0f);
      sums[i] = tap == 0 ? product : sums[i] + product;
    }
  }
  float* const q = t.q + at;
  for (size_t i = c.begin; i < c.end; ++i) {
    q[i] *= w.bias != nullptr ? sums[i] + w.bias[i] : sums[i];
  }
}

// From the oldest on: each comes from a place that is not overwritten yet.
void keep(const Run& run, const Weights& w, const float* u, Channels c) {
  for (size_t place = 0; place + 1 < w.n_taps; ++place) {
    const float* const input = input_of(run, w, u, run.n, w.n_taps - 1 - place);
    float* const to = run.behind + place * w.width;
    for (size_t i = c.begin; i < c.end; ++i) to[i] = input != nullptr ? input[i] : 0.0f;
  }
}

// The run that begins at a row.
Run run_at(const Step& s, const Layer& layer, size_t first) {
  const LayerStates* const states = s.rows[first].states;
  size_t n = 1;
  while (first + n < s.n() && s.rows[first + n].states == states) ++n;
  const KvCache& cache = states->caches[layer.state_kind];
  const auto block = [&](uint32_t slot) {
    return reinterpret_cast<float*>(cache.at(0, cache.row(layer.state_layer, 0, slot)));
  };
  const bool is_first = s.rows[first].position == 0;
  return {first, n, is_first ? nullptr : block(states->read_slot), block(states->write_slot)};
}

// k of the channels becomes k * v, which is convolved, and q what the output matrix reads.
void convolve(const Step& s, const Layer& layer, const Weights& w, const Scratch& t, Channels c) {
  for (size_t row = 0; row < s.n(); ++row) {
    float* const u = t.k + row * w.width;
    const float* const v = t.v + row * w.width;
    for (size_t i = c.begin; i < c.end; ++i) u[i] *= v[i];
  }
  for (size_t first = 0; first < s.n();) {
    const Run run = run_at(s, layer, first);
    for (size_t row = 0; row < run.n; ++row) gate_row(run, w, t, row, c);
    keep(run, w, t.k, c);
    first += run.n;
  }
}

}  // namespace

Status forward(const Step& s, const Layer& layer, const float* in, float* out) {
  Carver carver(s.scratch);
  const Scratch t = lay_out(s.model(), *layer.kind, s.shape, &carver);
  CRIA_TRY(linear(s, in,
                  {{layer.find(TensorRole::kQ), t.q},
                   {layer.find(TensorRole::kK), t.k},
                   {layer.find(TensorRole::kV), t.v}}));
  const Tensor* const bias = layer.find(TensorRole::kConvolutionBias);
  const Weights w = {layer.find(TensorRole::kConvolution)->values(),
                     bias != nullptr ? bias->values() : nullptr, layer.kind->conv_taps,
                     s.model().d_model};
  parallel_ranges(s.threads, w.width, [&](size_t begin, size_t end, size_t /*task*/) {
    convolve(s, layer, w, t, {begin, end});
  });
  return linear(s, t.q, {{layer.find(TensorRole::kO), out}});
}

}  // namespace cria::short_convolution

#endif  // CRIA_WITH_RECURRENT
