#include "converter/calibration/float_decoder.h"

#include <algorithm>

#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

constexpr size_t kTaskRows = 64;
constexpr size_t kTaskValues = 1 << 14;
constexpr size_t kAttentionRows = 48;  // whose scores are in memory at once

// Those that sessions of the planned context use, of the one table that there is.
std::span<const float> frequencies_of(const Config& config, std::span<const float> rope) {
  const format::RopeTable& table = config.model->rope_tables[0];
  const bool is_long =
      table.original_context != 0 && config.model->planned_context > table.original_context;
  return rope.subspan(is_long ? table.n_pairs : 0, table.n_pairs);
}

}  // namespace

SequenceCache::SequenceCache(const format::LayerKind& kind, size_t n_positions, PanelFormat format)
    : keys(kind.n_key_heads, PanelMatrix(n_positions, kind.key_dim, format)),
      values(kind.n_key_heads, PanelMatrix(kind.key_dim, n_positions, format)) {}

FloatDecoder::FloatDecoder(const Config& config, std::span<const float> rope, size_t n_positions,
                           hosted::ThreadPool* pool)
    : config_(config),
      rotation_(frequencies_of(config, rope), config.model->rope_tables[0].factor, n_positions),
      pool_(pool) {}

void FloatDecoder::normalize(const float* x, size_t n, const std::vector<float>& weight,
                             float* y) const {
  const size_t width = config_.model->d_model;
  hosted::shared_loop(pool_, (n + kTaskRows - 1) / kTaskRows, [&](size_t task, size_t) {
    const size_t end = std::min((task + 1) * kTaskRows, n);
    for (size_t i = task * kTaskRows; i < end; ++i) {
      rms_norm(x + i * width, weight.data(), width, config_.model->norm_epsilon, y + i * width);
    }
  });
}

void FloatDecoder::prepare_heads(size_t layer, const std::vector<float>& norm, size_t n_heads,
                                 std::span<const size_t> positions, float* heads) const {
  const format::LayerKind& kind = config_.kind_of(layer);
  const bool turns = kind.rope_table != format::kNoTable;
  const size_t head_dim = kind.key_dim;
  const size_t n = positions.size();
  hosted::shared_loop(pool_, (n + kTaskRows - 1) / kTaskRows, [&](size_t task, size_t) {
    const size_t end = std::min((task + 1) * kTaskRows, n);
    for (size_t i = task * kTaskRows; i < end; ++i) {
      for (size_t h = 0; h < n_heads; ++h) {
        float* head = heads + (i * n_heads + h) * head_dim;
        if (!norm.empty()) rms_norm(head, norm.data(), head_dim, kind.inner_epsilon, head);
        if (turns) rotate_head(rotation_, positions[i], head);
      }
    }
  });
}

void FloatDecoder::attend_head(size_t layer, const float* q, size_t n, size_t first,
                               const PanelMatrix& keys, const PanelMatrix& values,
                               std::vector<float>* scores, float* out) const {
  const format::LayerKind& kind = config_.kind_of(layer);
  const size_t stride = q_width();
  for (size_t row = 0; row < n; row += kAttentionRows) {
    const size_t n_rows = std::min(kAttentionRows, n - row);
    const size_t end = first + row + n_rows;  // positions that any of the rows sees
    const size_t n_panels = (end + kPanelWidth - 1) / kPanelWidth;
    const size_t width = n_panels * kPanelWidth;
    scores->resize(n_rows * width);
    multiply_panels(q + row * stride, n_rows, stride, keys, kind.key_dim, 0, n_panels,
                    scores->data(), width);
    for (size_t r = 0; r < n_rows; ++r) {
      float* of_row = scores->data() + r * width;
      const size_t last = first + row + r + 1;
      const size_t begin = kind.window != 0 && last > kind.window ? last - kind.window : 0;
      for (size_t i = begin; i < last; ++i) of_row[i] *= kind.score_multiplier;
      softmax(of_row + begin, last - begin);
      std::fill(of_row, of_row + begin, 0.0f);
      std::fill(of_row + last, of_row + width, 0.0f);
    }
    multiply_panels(scores->data(), n_rows, width, values, end, 0, values.n_panels(),
                    out + row * stride, stride);
  }
}

void FloatDecoder::attend(size_t layer, const float* q, const float* k, const float* v, size_t n,
                          size_t first, SequenceCache* cache, float* out) const {
  const format::LayerKind& kind = config_.kind_of(layer);
  const size_t head_dim = kind.key_dim;
  const size_t per_kv = kind.n_query_heads / kind.n_key_heads;
  std::vector<float> scores;
  for (size_t kv = 0; kv < kind.n_key_heads; ++kv) {
    for (size_t i = 0; i < n; ++i) {
      cache->keys[kv].set_row(first + i, k + i * kv_width() + kv * head_dim);
      cache->values[kv].set_col(first + i, v + i * kv_width() + kv * head_dim);
    }
    for (size_t head = kv * per_kv; head < (kv + 1) * per_kv; ++head) {
      attend_head(layer, q + head * head_dim, n, first, cache->keys[kv], cache->values[kv], &scores,
                  out + head * head_dim);
    }
  }
}

void FloatDecoder::activate(float* gate, const float* up, size_t n) const {
  hosted::shared_loop(pool_, (n + kTaskValues - 1) / kTaskValues, [&](size_t task, size_t) {
    const size_t begin = task * kTaskValues;
    silu_multiply(gate + begin, up + begin, std::min(kTaskValues, n - begin));
  });
}

void FloatDecoder::add_residual(const float* block, size_t n, float* x) const {
  add_scaled(block, config_.model->residual_multiplier, n * config_.model->d_model, x);
}

void FloatDecoder::scale_embedding(float* x) const {
  for (size_t i = 0; i < config_.model->d_model; ++i) x[i] *= config_.model->embedding_multiplier;
}

}  // namespace cria::converter
