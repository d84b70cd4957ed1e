#include "runtime/decode/decoder.h"

#include <initializer_list>

#include "quant/tile16.h"
#include "runtime/base/parallel.h"
#include "runtime/base/scalar_math.h"
#include "runtime/decode/attention.h"

namespace cria {
namespace {

// Steps of the decoder -------------------------------------------------------------------------

// x [n][d_model] = embedding rows * embedding_multiplier.
void embed(const cria_session& s, std::span<const uint32_t> tokens) {
  const format::ModelConfig& c = s.model.config;
  const Matrix& e = s.model.embedding;
  parallel_ranges(s, tokens.size(), [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      float* row = s.scratch.x + i * c.d_model;
      unpack_row(e.shape, e.codes, e.scales, tokens[i], row);
      for (size_t d = 0; d < c.d_model; ++d) row[d] *= c.embedding_multiplier;
    }
  });
}

// Cosines and sines of the angles position * inverse frequency, [n][head_dim / 2] each.
void rotate_angles(const cria_session& s, size_t n) {
  const format::ModelConfig& c = s.model.config;
  const size_t half = c.head_dim / 2;
  parallel_ranges(s, n, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      const auto position = static_cast<float>(s.position + i);
      for (size_t d = 0; d < half; ++d) {
        // The product is rounded to f32 because that is how the models were trained.
        const float angle = position * s.model.rope_inverse_frequencies[d];
        const SinCos value = sin_cos(static_cast<double>(angle));
        s.scratch.rope_cos[i * half + d] = static_cast<float>(value.cosine) * c.rope_factor;
        s.scratch.rope_sin[i * half + d] = static_cast<float>(value.sine) * c.rope_factor;
      }
    }
  });
}

void normalize(const cria_session& s, const float* x, const float* weight, size_t n, float* y) {
  const size_t width = s.model.config.d_model;
  parallel_ranges(s, n, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      s.kernels->rms_norm(x + i * width, weight, width, s.model.config.rms_epsilon, y + i * width);
    }
  });
}

void rotate(const cria_session& s, float* x, size_t n_heads, size_t n) {
  const size_t head_dim = s.model.config.head_dim;
  parallel_ranges(s, n, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      s.kernels->rope(x + i * n_heads * head_dim, n_heads, head_dim,
                      s.scratch.rope_cos + i * head_dim / 2, s.scratch.rope_sin + i * head_dim / 2);
    }
  });
}

void add_bias(const cria_session& s, const Matrix& m, float* y, size_t n) {
  if (m.bias == nullptr) return;
  for (size_t i = 0; i < n; ++i)
    s.kernels->add_scaled(y + i * m.shape.rows, m.bias, 1.0f, m.shape.rows);
}

// y = W * x + bias for each pair of W and y; the pairs share x [n][cols].
Status linear(cria_session* s, const float* x, size_t n, std::initializer_list<LinearCall> calls) {
  CRIA_TRY(s->backend->linear(s, x, n, std::span<const LinearCall>(calls.begin(), calls.size())));
  for (const LinearCall& call : calls) add_bias(*s, *call.matrix, call.y, n);
  return Status::kOk;
}

// gate = silu(gate) * up, [n][d_ff].
void gate_up(const cria_session& s, size_t n) {
  const size_t width = s.model.config.d_ff;
  // Cut into blocks so that one row, too, goes to all threads.
  constexpr size_t kBlock = 1024;
  const size_t total = n * width;
  parallel_ranges(s, (total + kBlock - 1) / kBlock, [&](size_t begin, size_t end, size_t /*task*/) {
    const size_t from = begin * kBlock;
    const size_t to = end * kBlock < total ? end * kBlock : total;
    s.kernels->silu_mul(s.scratch.gate + from, s.scratch.up + from, to - from);
  });
}

// x += projected * residual_multiplier, [n][d_model].
void add_residual(const cria_session& s, size_t n) {
  const size_t width = s.model.config.d_model;
  parallel_ranges(s, n, [&](size_t begin, size_t end, size_t /*task*/) {
    s.kernels->add_scaled(s.scratch.x + begin * width, s.scratch.projected + begin * width,
                          s.model.config.residual_multiplier, (end - begin) * width);
  });
}

Status attention_block(cria_session* s, size_t index, size_t n) {
  const format::ModelConfig& c = s->model.config;
  const Layer& layer = s->model.layers[index];
  const StepScratch& t = s->scratch;
  normalize(*s, t.x, layer.attention_norm, n, t.normed);
  CRIA_TRY(linear(s, t.normed, n, {{&layer.q, t.q}, {&layer.k, t.k}, {&layer.v, t.v}}));
  rotate(*s, t.q, c.n_heads, n);
  rotate(*s, t.k, c.n_kv_heads, n);
  store_keys_values(*s, index, n, t.k, t.v);
  attend(*s, index, n, t.q, t.normed);
  CRIA_TRY(linear(s, t.normed, n, {{&layer.o, t.projected}}));
  add_residual(*s, n);
  return Status::kOk;
}

Status feed_forward_block(cria_session* s, size_t index, size_t n) {
  const Layer& layer = s->model.layers[index];
  const StepScratch& t = s->scratch;
  normalize(*s, t.x, layer.ffn_norm, n, t.normed);
  CRIA_TRY(linear(s, t.normed, n, {{&layer.gate, t.gate}, {&layer.up, t.up}}));
  gate_up(*s, n);
  CRIA_TRY(linear(s, t.gate, n, {{&layer.down, t.projected}}));
  add_residual(*s, n);
  return Status::kOk;
}

// logits [n][vocab_size] of rows [first, first + n) of x.
Status output_block(cria_session* s, size_t first, size_t n, float* logits) {
  const format::ModelConfig& c = s->model.config;
  const StepScratch& t = s->scratch;
  normalize(*s, t.x + first * c.d_model, s->model.final_norm, n, t.normed);
  CRIA_TRY(linear(s, t.normed, n, {{&s->model.lm_head, logits}}));
  if (c.logits_divisor != 1.0f) {
    for (size_t i = 0; i < n * c.vocab_size; ++i) logits[i] /= c.logits_divisor;
  }
  return Status::kOk;
}

}  // namespace

Status forward(cria_session* s, std::span<const uint32_t> tokens, LogitRows rows, float* logits) {
  const size_t n = tokens.size();
  embed(*s, tokens);
  rotate_angles(*s, n);
  for (size_t layer = 0; layer < s->model.config.n_layers; ++layer) {
    CRIA_TRY(attention_block(s, layer, n));
    CRIA_TRY(feed_forward_block(s, layer, n));
  }
  if (logits != nullptr) {
    const size_t wanted = rows == LogitRows::kAll ? n : 1;
    CRIA_TRY(output_block(s, n - wanted, wanted, logits));
  }
  for (size_t i = 0; i < n; ++i) s->history[s->position + i] = tokens[i];
  s->position += static_cast<uint32_t>(n);
  return Status::kOk;
}

void lay_out_scratch(cria_session* s) {
  const format::ModelConfig& c = s->model.config;
  const RunningLayout layout = running_layout(c, s->plan_input);
  const size_t rows = s->plan_input.prefill_chunk;
  const size_t q_width = size_t{c.n_heads} * c.head_dim;
  const size_t kv_width = size_t{c.n_kv_heads} * c.head_dim;
  uint8_t* p = s->step;
  const auto take = [&](uint64_t bytes) {
    uint8_t* begin = p;
    p += bytes;
    return begin;
  };
  const auto floats = [](uint8_t* bytes) { return reinterpret_cast<float*>(bytes); };
  const auto block = [](size_t n) { return round_up(n * sizeof(float), format::kAlignment); };
  StepScratch& t = s->scratch;
  t.x = floats(take(layout.x));
  t.normed = floats(take(layout.normed));
  uint8_t* wide = take(layout.wide);
  t.q = floats(wide);
  t.k = floats(wide + block(rows * q_width));
  t.v = floats(wide + block(rows * q_width) + block(rows * kv_width));
  t.gate = floats(wide);
  t.up = floats(wide + block(rows * c.d_ff));
  t.projected = floats(take(layout.projected));
  t.quantized = reinterpret_cast<int8_t*>(take(layout.quantized));
  t.quantized_scales = floats(take(layout.quantized_scales));
  t.quantized_sums = reinterpret_cast<int32_t*>(take(layout.quantized_sums));
  t.rope_cos = floats(take(layout.rope));
  t.rope_sin = t.rope_cos + rows * c.head_dim / 2;
  t.attention = take(layout.attention);
  t.attention_per_thread = static_cast<size_t>(layout.attention_per_thread);
  t.backend = take(layout.backend);
}

}  // namespace cria
