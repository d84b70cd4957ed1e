#include "runtime/decode/decoder.h"

#include <initializer_list>

#include "quant/align.h"
#include "quant/model_layout.h"
#include "quant/tensor_roles.h"
#include "quant/tile16.h"
#include "runtime/base/scalar_math.h"
#include "runtime/decode/attention.h"

namespace cria {
namespace {

// Steps of the decoder -------------------------------------------------------------------------

// x [n][d_model] = embedding rows * embedding_multiplier.
void embed(const cria_workspace& w, size_t n) {
  const format::ModelConfig& c = w.model->config;
  const Matrix& e = w.model->weights.embedding;
  parallel_ranges(w.threads, n, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      float* row = w.step.x + i * c.d_model;
      unpack_row(e.shape, e.codes, e.scales, w.step.rows[i].token, row);
      for (size_t d = 0; d < c.d_model; ++d) row[d] *= c.embedding_multiplier;
    }
  });
}

// Cosines and sines of the angles position * inverse frequency, [n][rotary_dim / 2] each.
void rotate_angles(const cria_workspace& w, size_t n) {
  const format::ModelConfig& c = w.model->config;
  const size_t half = rotary_dim(c) / 2;
  parallel_ranges(w.threads, n, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      const auto position = static_cast<float>(w.step.rows[i].position);
      const float* frequencies = w.step.rows[i].kv->inverse_frequencies;
      for (size_t d = 0; d < half; ++d) {
        // The product is rounded to f32 because that is how the models were trained.
        const float angle = position * frequencies[d];
        const SinCos value = sin_cos(static_cast<double>(angle));
        w.step.rope_cos[i * half + d] = static_cast<float>(value.cosine) * c.rope_factor;
        w.step.rope_sin[i * half + d] = static_cast<float>(value.sine) * c.rope_factor;
      }
    }
  });
}

void normalize(const cria_workspace& w, const float* x, const float* weight, size_t n, float* y) {
  const size_t width = w.model->config.d_model;
  const float epsilon = w.model->config.rms_epsilon;
  parallel_ranges(w.threads, n, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      w.model->kernels.rms_norm(x + i * width, weight, width, epsilon, y + i * width);
    }
  });
}

// x [n][n_heads][head_dim], each head by itself; weight null: left as they are.
void normalize_heads(const cria_workspace& w, float* x, const float* weight, size_t n_heads,
                     size_t n) {
  if (weight == nullptr) return;
  const size_t head_dim = w.model->config.head_dim;
  const float epsilon = w.model->config.rms_epsilon;
  parallel_ranges(w.threads, n * n_heads, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      float* head = x + i * head_dim;
      w.model->kernels.rms_norm(head, weight, head_dim, epsilon, head);
    }
  });
}

// x [n][n_heads][head_dim], of each head the first rotary_dim elements.
void rotate(const cria_workspace& w, float* x, size_t n_heads, size_t n) {
  const size_t head_dim = w.model->config.head_dim;
  const size_t turned = rotary_dim(w.model->config);
  // Heads that are turned as a whole stand side by side.
  const size_t at_once = turned == head_dim ? n_heads : 1;
  parallel_ranges(w.threads, n, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      for (size_t head = 0; head < n_heads; head += at_once) {
        w.model->kernels.rope(x + (i * n_heads + head) * head_dim, at_once, turned,
                              w.step.rope_cos + i * turned / 2, w.step.rope_sin + i * turned / 2);
      }
    }
  });
}

void add_bias(const cria_workspace& w, const Matrix& m, float* y, size_t n) {
  if (m.bias == nullptr) return;
  for (size_t i = 0; i < n; ++i) {
    w.model->kernels.add_scaled(y + i * m.shape.rows, m.bias, 1.0f, m.shape.rows);
  }
}

// y = W * x + bias for each pair of W and y; the pairs share x [n][cols].
Status linear(const cria_workspace& w, const float* x, size_t n,
              std::initializer_list<LinearCall> calls) {
  const LinearTools tools = {w.model->kernels, w.threads, w.step.linear, w.backend};
  CRIA_TRY(w.model->backend->linear(tools, x, n, {calls.begin(), calls.size()}));
  for (const LinearCall& call : calls) add_bias(w, *call.matrix, call.y, n);
  return Status::kOk;
}

// gate = silu(gate) * up, [n][d_ff].
void gate_up(const cria_workspace& w, size_t n) {
  const size_t width = w.model->config.d_ff;
  // Cut into blocks so that one row, too, goes to all threads.
  constexpr size_t kBlock = 1024;
  const size_t total = n * width;
  const size_t n_blocks = (total + kBlock - 1) / kBlock;
  const Activate activate = w.model->kernels.activations[place_of(Activation::kSilu)];
  parallel_ranges(w.threads, n_blocks, [&](size_t begin, size_t end, size_t /*task*/) {
    const size_t from = begin * kBlock;
    const size_t to = end * kBlock < total ? end * kBlock : total;
    activate(w.step.gate + from, w.step.up + from, to - from);
  });
}

// x += projected * residual_multiplier, [n][d_model].
void add_residual(const cria_workspace& w, size_t n) {
  const size_t width = w.model->config.d_model;
  parallel_ranges(w.threads, n, [&](size_t begin, size_t end, size_t /*task*/) {
    w.model->kernels.add_scaled(w.step.x + begin * width, w.step.projected + begin * width,
                                w.model->config.residual_multiplier, (end - begin) * width);
  });
}

Status attention_block(const cria_workspace& w, size_t index, size_t n) {
  const format::ModelConfig& c = w.model->config;
  const Layer& layer = w.model->weights.layers[index];
  const StepScratch& t = w.step;
  const AttentionTools tools = {c,           w.model->kernels,       w.threads,
                                t.attention, t.attention_per_thread, t.attention_queries};
  normalize(w, t.x, layer.attention_norm, n, t.normed);
  CRIA_TRY(linear(w, t.normed, n, {{&layer.q, t.q}, {&layer.k, t.k}, {&layer.v, t.v}}));
  normalize_heads(w, t.q, layer.q_norm, c.n_heads, n);
  normalize_heads(w, t.k, layer.k_norm, c.n_kv_heads, n);
  if (has_rope(c, index)) {
    rotate(w, t.q, c.n_heads, n);
    rotate(w, t.k, c.n_kv_heads, n);
  }
  store_keys_values(tools, index, {t.rows, n}, t.k, t.v);
  attend(tools, index, {t.rows, n}, t.q, t.normed);
  CRIA_TRY(linear(w, t.normed, n, {{&layer.o, t.projected}}));
  add_residual(w, n);
  return Status::kOk;
}

Status feed_forward_block(const cria_workspace& w, size_t index, size_t n) {
  const Layer& layer = w.model->weights.layers[index];
  const StepScratch& t = w.step;
  normalize(w, t.x, layer.ffn_norm, n, t.normed);
  CRIA_TRY(linear(w, t.normed, n, {{&layer.gate, t.gate}, {&layer.up, t.up}}));
  gate_up(w, n);
  CRIA_TRY(linear(w, t.gate, n, {{&layer.down, t.projected}}));
  add_residual(w, n);
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
  embed(*w, n);
  rotate_angles(*w, n);
  for (size_t layer = 0; layer < w->model->config.n_layers; ++layer) {
    CRIA_TRY(attention_block(*w, layer, n));
    CRIA_TRY(feed_forward_block(*w, layer, n));
    CRIA_TRY(report(w, n));
  }
  return Status::kOk;
}

Status output(cria_workspace* w, size_t first, size_t n, float* logits) {
  const format::ModelConfig& c = w->model->config;
  const StepScratch& t = w->step;
  normalize(*w, t.x + first * c.d_model, w->model->weights.final_norm, n, t.normed);
  CRIA_TRY(linear(*w, t.normed, n, {{&w->model->weights.lm_head, logits}}));
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
  t.q = floats(wide);
  t.k = floats(wide + block(rows * q_width));
  t.v = floats(wide + block(rows * q_width) + block(rows * kv_width));
  t.gate = floats(wide);
  t.up = floats(wide + block(rows * c.d_ff));
  t.projected = floats(take(layout.projected));
  t.linear.codes = reinterpret_cast<int8_t*>(take(layout.quantized));
  t.linear.scales = floats(take(layout.quantized_scales));
  t.linear.sums = reinterpret_cast<int32_t*>(take(layout.quantized_sums));
  t.rope_cos = floats(take(layout.rope));
  t.rope_sin = t.rope_cos + rows * c.head_dim / 2;
  t.attention = take(layout.attention);
  t.attention_per_thread = static_cast<size_t>(layout.attention_per_thread);
  t.attention_queries = static_cast<size_t>(layout.attention_queries);
  t.rows = reinterpret_cast<Row*>(take(layout.rows));
  t.turn_logits = floats(take(layout.turn_logits));
  t.linear.backend = take(layout.backend);
}

}  // namespace cria
