// The decoder in floats, for calibration: what a layer computes, in parts, for many sequences at
// once. Its bits do not depend on machine, compiler and threads, nor a row's on the rows beside it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "converter/calibration/decoder_math.h"
#include "converter/calibration/float_layer.h"
#include "converter/rope.h"
#include "platforms/hosted/base/thread_pool.h"
#include "quant/format.h"

namespace cria::converter {

// Keys and values of one sequence in one layer, a matrix each for every KV head.
struct SequenceCache {
  // Of kF32 or kBf16; for n_positions of them.
  SequenceCache(const format::ModelConfig& config, size_t n_positions, PanelFormat format);
  std::vector<PanelMatrix> keys;    // [n_positions][head_dim]
  std::vector<PanelMatrix> values;  // [head_dim][n_positions]
};

class FloatDecoder {
 public:
  // n_positions  most tokens of a sequence
  FloatDecoder(const format::ModelConfig& config, const Rope& rope, size_t n_positions,
               hosted::ThreadPool* pool);

  [[nodiscard]] const format::ModelConfig& config() const { return config_; }
  [[nodiscard]] size_t q_width() const { return size_t{config_.n_heads} * config_.head_dim; }
  [[nodiscard]] size_t kv_width() const { return size_t{config_.n_kv_heads} * config_.head_dim; }

  // y [n][d_model], may be x.
  void normalize(const float* x, size_t n, const std::vector<float>& weight, float* y) const;
  // Queries [n][q_width] or keys [n][kv_width] as attention takes them: normalized where the layer
  // normalizes heads, turned where it turns them. positions [n].
  void prepare_heads(size_t layer, const std::vector<float>& norm, size_t n_heads,
                     std::span<const size_t> positions, float* heads) const;
  // Rows of one sequence behind one another, from position first on: stores their keys and values,
  // then attends, on the calling thread. q, out [n][q_width]; k, v [n][kv_width].
  void attend(const float* q, const float* k, const float* v, size_t n, size_t first,
              SequenceCache* cache, float* out) const;
  // gate [n][d_ff] becomes silu(gate) * up.
  void activate(float* gate, const float* up, size_t n) const;
  // x [n][d_model] += block * residual_multiplier.
  void add_residual(const float* block, size_t n, float* x) const;
  // x [d_model]: an embedding's row becomes a token's.
  void scale_embedding(float* x) const;

 private:
  void attend_head(const float* q, size_t n, size_t first, const PanelMatrix& keys,
                   const PanelMatrix& values, std::vector<float>* scores, float* out) const;

  const format::ModelConfig& config_;
  RotationTable rotation_;
  hosted::ThreadPool* pool_;
};

}  // namespace cria::converter
