#include "runtime/decode/decoder.h"

#include "quant/align.h"
#include "quant/tensor_roles.h"
#include "quant/tile16.h"
#include "runtime/base/scalar_math.h"
#include "runtime/decode/attention_block.h"
#include "runtime/decode/dense.h"

namespace cria {
namespace {

using Role = format::TensorRole;

Step begin_step(const cria_workspace& w, size_t n) {
  const cria_model& m = *w.model;
  const StepScratch& t = w.step;
  return {.config = m.config,
          .kernels = m.kernels,
          .threads = w.threads,
          .backend = *m.backend,
          .linear = {m.kernels, w.threads, t.linear, w.backend},
          .rows = {t.rows, n},
          .x = t.x,
          .normed = t.normed,
          .block = t.block,
          .cosines = t.cosines,
          .sines = t.sines,
          .blocks = t.blocks};
}

// x = embedding rows * embedding_multiplier.
void embed(const Step& s, const Tensor& embedding) {
  const size_t width = s.config.d_model;
  parallel_ranges(s.threads, s.rows.size(), [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      float* row = s.x + i * width;
      unpack_row(embedding.shape, embedding.codes, embedding.scales, s.rows[i].token, row);
      for (size_t d = 0; d < width; ++d) row[d] *= s.config.embedding_multiplier;
    }
  });
}

// Cosines and sines of the angles position * inverse frequency, [rows][rotary_dim / 2] each.
void find_angles(const Step& s) {
  const size_t half = rotary_dim(s.config) / 2;
  parallel_ranges(s.threads, s.rows.size(), [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      const auto position = static_cast<float>(s.rows[i].position);
      const float* frequencies = s.rows[i].kv->inverse_frequencies;
      for (size_t d = 0; d < half; ++d) {
        // The product is rounded to f32 because that is how the models were trained.
        const float angle = position * frequencies[d];
        const SinCos value = sin_cos(static_cast<double>(angle));
        s.cosines[i * half + d] = static_cast<float>(value.cosine) * s.config.rope_factor;
        s.sines[i * half + d] = static_cast<float>(value.sine) * s.config.rope_factor;
      }
    }
  });
}

// What a block reads: x, or x normalized.
const float* before(const Step& s, const Layer& layer, Role norm) {
  const Tensor* weight = layer.find(norm);
  if (weight == nullptr) return s.x;
  normalize(s, *weight, s.x, s.normed);
  return s.normed;
}

// x += block * residual_multiplier.
void add(const Step& s) {
  const size_t width = s.config.d_model;
  parallel_ranges(s.threads, s.rows.size(), [&](size_t begin, size_t end, size_t /*task*/) {
    s.kernels.add_scaled(s.x + begin * width, s.block + begin * width, s.config.residual_multiplier,
                         (end - begin) * width);
  });
}

Status mix(const Step& s, const Layer& layer) {
  CRIA_TRY(attention(s, layer, before(s, layer, Role::kAttentionNorm), s.block));
  add(s);
  return Status::kOk;
}

Status feed_forward(const Step& s, const Layer& layer) {
  CRIA_TRY(dense(s, layer, before(s, layer, Role::kFfnNorm), s.block));
  add(s);
  return Status::kOk;
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
  embed(s, *weights.outside.find(Role::kEmbedding));
  find_angles(s);
  for (const Layer& layer : weights.layers) {
    CRIA_TRY(mix(s, layer));
    CRIA_TRY(feed_forward(s, layer));
    CRIA_TRY(report(w, n));
  }
  return Status::kOk;
}

Status output(cria_workspace* w, size_t first, size_t n, float* logits) {
  const format::ModelConfig& c = w->model->config;
  const TensorsByRole& outside = w->model->weights.outside;
  const Step s = begin_step(*w, n);
  normalize(s, *outside.find(Role::kFinalNorm), s.x + first * c.d_model, s.normed);
  CRIA_TRY(linear(s, s.normed, {{outside.find(Role::kLmHead), logits}}));
  if (c.logits_divisor != 1.0f) {
    for (size_t i = 0; i < n * c.vocab_size; ++i) logits[i] /= c.logits_divisor;
  }
  return Status::kOk;
}

void lay_out_scratch(const PlanInput& input, cria_workspace* w) {
  const format::ModelConfig& c = w->model->config;
  const RunningLayout layout = running_layout(c, input);
  const size_t rows = input.prefill_chunk;
  const size_t q_width = size_t{c.n_heads} * c.head_dim;
  const size_t kv_width = size_t{c.n_kv_heads} * c.head_dim;
  uint8_t* p = w->scratch.data();
  const auto take = [&](uint64_t bytes) {
    uint8_t* begin = p;
    p += bytes;
    return begin;
  };
  const auto floats = [](uint8_t* bytes) { return reinterpret_cast<float*>(bytes); };
  const auto block = [](size_t n) { return aligned(n * sizeof(float)); };
  StepScratch& t = w->step;
  t.x = floats(take(layout.x));
  t.normed = floats(take(layout.normed));
  uint8_t* wide = take(layout.wide);
  t.blocks.q = floats(wide);
  t.blocks.k = floats(wide + block(rows * q_width));
  t.blocks.v = floats(wide + block(rows * q_width) + block(rows * kv_width));
  t.blocks.gate = floats(wide);
  t.blocks.up = floats(wide + block(rows * c.d_ff));
  t.block = floats(take(layout.projected));
  t.linear.codes = reinterpret_cast<int8_t*>(take(layout.quantized));
  t.linear.scales = floats(take(layout.quantized_scales));
  t.linear.sums = reinterpret_cast<int32_t*>(take(layout.quantized_sums));
  t.cosines = floats(take(layout.rope));
  t.sines = t.cosines + rows * c.head_dim / 2;
  t.blocks.attention = take(layout.attention);
  t.blocks.attention_per_thread = static_cast<size_t>(layout.attention_per_thread);
  t.blocks.attention_queries = static_cast<size_t>(layout.attention_queries);
  t.rows = reinterpret_cast<Row*>(take(layout.rows));
  t.turn_logits = floats(take(layout.turn_logits));
  t.linear.backend = take(layout.backend);
}

}  // namespace cria
