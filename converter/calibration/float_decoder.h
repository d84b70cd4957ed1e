// The decoder in floats, for calibration: what a layer computes, in parts, for many sequences at
// once. Its bits do not depend on machine, compiler and threads, nor a row's on the rows beside it.
// Layers are dense with attention, and differ in windows and RoPE alone.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "converter/calibration/decoder_math.h"
#include "converter/calibration/float_layer.h"
#include "platforms/hosted/base/thread_pool.h"
#include "quant/model_layout.h"

namespace cria::converter {

// Keys and values of one sequence in one layer, a matrix each for every KV head.
struct SequenceCache {
  // Of kF32 or kBf16; for n_positions of them.
  SequenceCache(const format::LayerKind& kind, size_t n_positions, PanelFormat format);
  std::vector<PanelMatrix> keys;    // [n_positions][key_dim]
  std::vector<PanelMatrix> values;  // [key_dim][n_positions]
};

class FloatDecoder {
 public:
  // rope         the tensor kRope
  // n_positions  most tokens of a sequence
  FloatDecoder(const Config& config, std::span<const float> rope, size_t n_positions,
               hosted::ThreadPool* pool);

  [[nodiscard]] const Config& config() const { return config_; }
  // What all layers have in common.
  [[nodiscard]] const format::LayerKind& layer() const { return config_.kinds.front(); }
  [[nodiscard]] size_t q_width() const { return extents::kQueries(*config_.model, layer()); }
  [[nodiscard]] size_t kv_width() const { return extents::kKeys(*config_.model, layer()); }

  // y [n][d_model], may be x.
  void normalize(const float* x, size_t n, const std::vector<float>& weight, float* y) const;
  // Queries [n][q_width] or keys [n][kv_width] as attention takes them: normalized where the layer
  // normalizes heads, turned where it turns them. positions [n].
  void prepare_heads(size_t layer, const std::vector<float>& norm, size_t n_heads,
                     std::span<const size_t> positions, float* heads) const;
  // Rows of one sequence behind one another, from position first on: stores their keys and values,
  // then attends, on the calling thread. q, out [n][q_width]; k, v [n][kv_width].
  void attend(size_t layer, const float* q, const float* k, const float* v, size_t n, size_t first,
              SequenceCache* cache, float* out) const;
  // n values: gate becomes silu(gate) * up.
  void activate(float* gate, const float* up, size_t n) const;
  // x [n][d_model] += block * residual_multiplier.
  void add_residual(const float* block, size_t n, float* x) const;
  // x [d_model]: an embedding's row becomes a token's.
  void scale_embedding(float* x) const;

 private:
  void attend_head(size_t layer, const float* q, size_t n, size_t first, const PanelMatrix& keys,
                   const PanelMatrix& values, std::vector<float>* scores, float* out) const;

  Config config_;
  RotationTable rotation_;
  hosted::ThreadPool* pool_;
};

}  // namespace cria::converter
