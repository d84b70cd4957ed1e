#include "runtime/blocks/short_convolution/short_convolution.h"

#if CRIA_WITH_RECURRENT

#include "quant/blocks/recurrence_formats.h"
#include "runtime/blocks/recurrence/convolution.h"

namespace cria::short_convolution {

using format::TensorRole;
using recurrences::Columns;
using recurrences::Convolution;
using recurrences::Run;

namespace {

// x = x * y of a run's rows, arrays that are both [rows][stride].
void multiply(const Run& run, const Columns& x, const float* y) {
  for (size_t row = run.first; row < run.first + run.n; ++row) {
    const size_t at = row * x.stride;
    for (size_t i = 0; i < x.n; ++i) x.x[at + i] *= y[at + i];
  }
}

// Channels of all rows: k becomes k * v, which is convolved, and q what the output matrix reads.
void convolve_channels(const Step& s, const Layer& layer, const Convolution& w, const Scratch& t,
                       size_t begin, size_t end) {
  const Columns q = {t.q + begin, w.n_channels, begin, end - begin};
  const Columns k = {t.k + begin, w.n_channels, begin, end - begin};
  recurrences::for_runs(s, layer, [&](const Run& run) {
    multiply(run, k, t.v + begin);
    recurrences::convolve(s.kernels, run, w, k);
    multiply(run, q, k.x);
  });
}

}  // namespace

Status forward(const Step& s, const Layer& layer, const float* in, float* out) {
  Carver carver(s.scratch);
  const Scratch t = lay_out(s.model(), *layer.kind, s.shape, &carver);
  CRIA_TRY(linear(s, in,
                  {{layer.find(TensorRole::kQ), t.q},
                   {layer.find(TensorRole::kK), t.k},
                   {layer.find(TensorRole::kV), t.v}}));
  const Convolution w = recurrences::convolution_of(layer, s.model().d_model, 0, false);
  parallel_for(s.threads, Even{w.n_channels}, [&](size_t begin, size_t end, size_t /*task*/) {
    convolve_channels(s, layer, w, t, begin, end);
  });
  return linear(s, t.q, {{layer.find(TensorRole::kO), out}});
}

}  // namespace cria::short_convolution

#endif  // CRIA_WITH_RECURRENT
