#include "runtime/decode/decoder.h"

#include <cstring>

#include "quant/numbers/tile16.h"
#include "runtime/base/features.h"
#include "runtime/base/scalar_math.h"
#include "runtime/blocks/blocks.h"
#include "runtime/blocks/per_layer/per_layer.h"

namespace cria {

using format::TensorRole;

void finish_embedding(const Step& s, const Weights& weights, const Row& row, float* x) {
  const format::ModelScalars& m = s.model();
  for (size_t d = 0; d < m.d_model; ++d) x[d] *= m.embedding_multiplier;
  if (!kHasVariants) return;
  if (const Tensor* learned = weights.find(TensorRole::kPositions)) {
    s.kernels.add_scaled(x, learned->values() + size_t{row.position} * m.d_model, 1.0f, m.d_model);
  }
}

namespace {

// Cosines and sines of a position's angles by one table.
void turn_position(const format::RopeTable& table, const float* rates, uint32_t position,
                   float* cosines) {
  for (size_t d = 0; d < table.n_pairs; ++d) {
    // The product is rounded to f32 because that is how the models were trained.
    const float angle = static_cast<float>(position) * rates[d];
    const SinCos value = sin_cos(static_cast<double>(angle));
    cosines[d] = static_cast<float>(value.cosine) * table.factor;
    cosines[table.n_pairs + d] = static_cast<float>(value.sine) * table.factor;
  }
}

}  // namespace

void find_angles(const Step& s, float* cosines) {
  const format::ModelScalars& m = s.model();
  const size_t per_row = size_t{2} * rope_pairs(m);
  parallel_for(s.threads, Even{s.n()}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      float* place = cosines + i * per_row;
      for (size_t t = 0; t < m.n_rope_tables; ++t) {
        const format::RopeTable& table = m.rope_tables[t];
        turn_position(table, s.rows[i].states->rope_rates[t], s.rows[i].position, place);
        place += 2 * table.n_pairs;
      }
    }
  });
}

namespace {

void normalize(const Step& s, const Layer& layer, const Tensor& weight, const float* x, float* y) {
  normalize(s, static_cast<format::Norm>(layer.kind->norm), layer.kind->norm_epsilon, weight, x, y);
}

// What a block reads: x, or x normalized.
const float* before(const Step& s, const Layer& layer, TensorRole norm) {
  const Tensor* weight = layer.find(norm);
  if (weight == nullptr) return s.x;
  normalize(s, layer, *weight, s.x, s.normed);
  return s.normed;
}

// x += block * multiplier, the block normalized first where the kind says so.
void add(const Step& s, const Layer& layer, TensorRole norm, float multiplier) {
  if (const Tensor* weight = layer.find(norm)) normalize(s, layer, *weight, s.block, s.block);
  const size_t width = s.model().d_model;
  parallel_for(s.threads, Even{s.n()}, [&](size_t begin, size_t end, size_t /*task*/) {
    s.kernels.add_scaled(s.x + begin * width, s.block + begin * width, multiplier,
                         (end - begin) * width);
  });
}

}  // namespace

Status mix(const Step& s, const Layer& layer) {
  if (layer.mixer == nullptr) return Status::kOk;
  const float* in = before(s, layer, TensorRole::kMixerNorm);
  CRIA_TRY(layer.mixer->forward(s, layer, in, s.block));
  add(s, layer, TensorRole::kMixerOutNorm, s.model().residual_multiplier);
  return Status::kOk;
}

Status feed_forward(const Step& s, const Layer& layer) {
  if (layer.feed_forward == nullptr) return Status::kOk;
  const float* in = before(s, layer, TensorRole::kFfnNorm);
  CRIA_TRY(layer.feed_forward->forward(s, layer, in, s.block));
  add(s, layer, TensorRole::kFfnOutNorm, s.model().residual_multiplier);
  return Status::kOk;
}

void read_layer_table(const Step& s, const Weights& weights, uint32_t number) {
  if constexpr (!kHasVariants) return;
  if (!weights.layers[number].has(format::flag::kPerLayerInput)) return;
  per_layer::read_table(s, weights, number);
}

Status finish_layer(const Step& s, const Weights& weights, uint32_t number) {
  if constexpr (!kHasVariants) return Status::kOk;
  const Layer& layer = weights.layers[number];
  if (layer.has(format::flag::kPerLayerInput)) {
    CRIA_TRY(per_layer::forward(s, weights, number, s.block));
    add(s, layer, TensorRole::kPerLayerOutNorm, 1);
  }
  const Tensor* const scale = layer.find(TensorRole::kLayerScale);
  if (scale == nullptr) return Status::kOk;
  for_values(s, s.n() * s.model().d_model, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) s.x[i] *= scale->values()[0];
  });
  return Status::kOk;
}

void normalize_last(const Step& s, const Weights& weights, const float* x, float* y) {
  const format::ModelScalars& m = s.model();
  normalize(s, static_cast<format::Norm>(m.final_norm), m.norm_epsilon,
            *weights.find(TensorRole::kFinalNorm), x, y);
}

void finish_logits(const Step& s, size_t n, float* logits) {
  const format::ModelScalars& m = s.model();
  const size_t n_values = n * m.vocab_size;
  if (m.logits_divisor != 1.0f) {
    for (size_t i = 0; i < n_values; ++i) logits[i] /= m.logits_divisor;
  }
  if (kHasVariants && m.logits_cap != 0) s.kernels.variants.cap(logits, n_values, m.logits_cap);
}

namespace {

Step begin_step(const cria_workspace& w, size_t n) {
  const cria_model& m = *w.model;
  const StepMemory& t = w.step;
  return {.config = m.config,
          .kernels = m.kernels,
          .threads = w.threads,
          .backend = *m.backend,
          .quantized = {t.codes, t.scales, t.sums, t.backend},
          .of_backend = w.backend,
          .shape = {w.n_rows, w.threads.n_tasks},
          .rows = {w.rows(), n},
          .x = t.x,
          .normed = t.normed,
          .block = t.block,
          .embedded = t.embedded,
          .cosines = t.cosines,
          .scratch = t.scratch};
}

// x = embedding rows * embedding_multiplier, and learned positions.
void embed(const Step& s, const Weights& weights) {
  const size_t width = s.model().d_model;
  const Tensor& embedding = *weights.find(TensorRole::kEmbedding);
  parallel_for(s.threads, Even{s.n()}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      float* x = s.x + i * width;
      unpack_row(embedding.shape, embedding.codes, embedding.scales, s.rows[i].token, x);
      finish_embedding(s, weights, s.rows[i], x);
    }
  });
}

// Tells the caller that n rows are through a layer, and asks whether to go on.
Status report(cria_workspace* w, size_t n) {
  if (w->progress == nullptr) return Status::kOk;
  w->n_done += n;
  return w->progress(w->progress_context, w->n_done, w->n_to_do) == 0 ? Status::kOk
                                                                      : Status::kCancelled;
}

}  // namespace

Status forward(cria_workspace* w, size_t n) {
  const Weights& weights = w->model->weights;
  const Step s = begin_step(*w, n);
  embed(s, weights);
  if (kHasVariants && s.model().per_layer_width != 0) {
    std::memcpy(w->step.embedded, s.x, n * s.model().d_model * sizeof(float));
  }
  find_angles(s, w->step.cosines);
  for (uint32_t i = 0; i < weights.layers.size(); ++i) {
    CRIA_TRY(mix(s, weights.layers[i]));
    CRIA_TRY(feed_forward(s, weights.layers[i]));
    read_layer_table(s, weights, i);
    CRIA_TRY(finish_layer(s, weights, i));
    CRIA_TRY(report(w, n));
  }
  return Status::kOk;
}

void hidden_rows(cria_workspace* w, size_t first, size_t n, float* hidden) {
  const Step s = begin_step(*w, n);
  normalize_last(s, w->model->weights, s.x + first * s.model().d_model, hidden);
}

Status output(cria_workspace* w, size_t first, size_t n, float* logits) {
  const Weights& weights = w->model->weights;
  const Step s = begin_step(*w, n);
  hidden_rows(w, first, n, s.normed);
  CRIA_TRY(linear(s, s.normed, {{weights.lm_head, logits}}));
  finish_logits(s, n, logits);
  return Status::kOk;
}

}  // namespace cria
