#include "converter/calibration/float_decoder.h"

#include <algorithm>

#include "platforms/hosted/base/shared_loop.h"
#include "quant/model_layout.h"

namespace cria::converter {
namespace {

constexpr size_t kTaskRows = 64;
constexpr size_t kTaskValues = 1 << 14;
constexpr size_t kAttentionRows = 48;  // whose scores are in memory at once

const std::vector<float>& frequencies_of(const format::ModelConfig& config, const Rope& rope) {
  const bool is_long =
      (config.flags & format::kLongRope) != 0 && config.planned_context > config.original_context;
  return is_long ? rope.long_inverse_frequencies : rope.inverse_frequencies;
}

}  // namespace

SequenceCache::SequenceCache(const format::ModelConfig& config, size_t n_positions,
                             PanelFormat format)
    : keys(config.n_kv_heads, PanelMatrix(n_positions, config.head_dim, format)),
      values(config.n_kv_heads, PanelMatrix(config.head_dim, n_positions, format)) {}

FloatDecoder::FloatDecoder(const format::ModelConfig& config, const Rope& rope, size_t n_positions,
                           hosted::ThreadPool* pool)
    : config_(config),
      rotation_(frequencies_of(config, rope), config.rope_factor, n_positions),
      pool_(pool) {}

void FloatDecoder::normalize(const float* x, size_t n, const std::vector<float>& weight,
                             float* y) const {
  const size_t width = config_.d_model;
  hosted::shared_loop(pool_, (n + kTaskRows - 1) / kTaskRows, [&](size_t task, size_t) {
    const size_t end = std::min((task + 1) * kTaskRows, n);
    for (size_t i = task * kTaskRows; i < end; ++i) {
      rms_norm(x + i * width, weight.data(), width, config_.rms_epsilon, y + i * width);
    }
  });
}

void FloatDecoder::prepare_heads(size_t layer, const std::vector<float>& norm, size_t n_heads,
                                 std::span<const size_t> positions, float* heads) const {
  const bool turns = has_rope(config_, layer);
  const size_t head_dim = config_.head_dim;
  const size_t n = positions.size();
  hosted::shared_loop(pool_, (n + kTaskRows - 1) / kTaskRows, [&](size_t task, size_t) {
    const size_t end = std::min((task + 1) * kTaskRows, n);
    for (size_t i = task * kTaskRows; i < end; ++i) {
      for (size_t h = 0; h < n_heads; ++h) {
        float* head = heads + (i * n_heads + h) * head_dim;
        if (!norm.empty()) rms_norm(head, norm.data(), head_dim, config_.rms_epsilon, head);
        if (turns) rotate_head(rotation_, positions[i], head);
      }
    }
  });
}

void FloatDecoder::attend_head(const float* q, size_t n, size_t first, const PanelMatrix& keys,
                               const PanelMatrix& values, std::vector<float>* scores,
                               float* out) const {
  const size_t stride = q_width();
  for (size_t row = 0; row < n; row += kAttentionRows) {
    const size_t n_rows = std::min(kAttentionRows, n - row);
    const size_t end = first + row + n_rows;  // positions that any of the rows sees
    const size_t n_panels = (end + kPanelWidth - 1) / kPanelWidth;
    const size_t width = n_panels * kPanelWidth;
    scores->resize(n_rows * width);
    multiply_panels(q + row * stride, n_rows, stride, keys, config_.head_dim, 0, n_panels,
                    scores->data(), width);
    for (size_t r = 0; r < n_rows; ++r) {
      float* of_row = scores->data() + r * width;
      const size_t last = first + row + r + 1;
      const size_t window = config_.sliding_window;
      const size_t begin = window != 0 && last > window ? last - window : 0;
      for (size_t i = begin; i < last; ++i) of_row[i] *= config_.attention_multiplier;
      softmax(of_row + begin, last - begin);
      std::fill(of_row, of_row + begin, 0.0f);
      std::fill(of_row + last, of_row + width, 0.0f);
    }
    multiply_panels(scores->data(), n_rows, width, values, end, 0, values.n_panels(),
                    out + row * stride, stride);
  }
}

void FloatDecoder::attend(const float* q, const float* k, const float* v, size_t n, size_t first,
                          SequenceCache* cache, float* out) const {
  const size_t head_dim = config_.head_dim;
  const size_t per_kv = config_.n_heads / config_.n_kv_heads;
  std::vector<float> scores;
  for (size_t kv = 0; kv < config_.n_kv_heads; ++kv) {
    for (size_t i = 0; i < n; ++i) {
      cache->keys[kv].set_row(first + i, k + i * kv_width() + kv * head_dim);
      cache->values[kv].set_col(first + i, v + i * kv_width() + kv * head_dim);
    }
    for (size_t head = kv * per_kv; head < (kv + 1) * per_kv; ++head) {
      attend_head(q + head * head_dim, n, first, cache->keys[kv], cache->values[kv], &scores,
                  out + head * head_dim);
    }
  }
}

void FloatDecoder::activate(float* gate, const float* up, size_t n) const {
  const size_t total = n * config_.d_ff;
  hosted::shared_loop(pool_, (total + kTaskValues - 1) / kTaskValues, [&](size_t task, size_t) {
    const size_t begin = task * kTaskValues;
    silu_multiply(gate + begin, up + begin, std::min(kTaskValues, total - begin));
  });
}

void FloatDecoder::add_residual(const float* block, size_t n, float* x) const {
  add_scaled(block, config_.residual_multiplier, n * config_.d_model, x);
}

void FloatDecoder::scale_embedding(float* x) const {
  for (size_t i = 0; i < config_.d_model; ++i) x[i] *= config_.embedding_multiplier;
}

}  // namespace cria::converter
