#include "converter/calibration/float_model.h"

#include <algorithm>
#include <utility>

#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

using format::TensorRole;

constexpr size_t kPartRows = 1024;  // of the FFN's second input, in memory at once

}  // namespace

FloatModel::FloatModel(const FloatDecoder& decoder, const PlannedWeights& weights,
                       TokenSequences sequences, hosted::ThreadPool* pool)
    : decoder_(decoder),
      config_(decoder.config()),
      weights_(weights),
      sequences_(std::move(sequences)),
      pool_(pool) {
  for (const std::vector<uint32_t>& tokens : sequences_) {
    first_rows_.push_back(positions_.size());
    for (size_t i = 0; i < tokens.size(); ++i) positions_.push_back(i);
  }
}

void FloatModel::embed(const Floats& rows, size_t first, Floats* x) const {
  const size_t width = config_.model->d_model;
  const size_t end = first + rows.size() / width;
  float* to = x->data();
  for (const std::vector<uint32_t>& tokens : sequences_) {
    for (const uint32_t token : tokens) {
      if (token >= first && token < end) {
        std::copy_n(rows.data() + (token - first) * width, width, to);
        decoder_.scale_embedding(to);
      }
      to += width;
    }
  }
}

Floats FloatModel::normalize(const Floats& x, TensorRole norm, uint32_t layer) const {
  Floats y(x.size());
  decoder_.normalize(x.data(), n_rows(), weights_.vector(norm, layer), y.data());
  return y;
}

Floats FloatModel::attend(uint32_t layer, const FloatLinear& q, const FloatLinear& k,
                          const FloatLinear& v, const Floats& inputs) const {
  const size_t q_width = decoder_.q_width();
  const size_t kv_width = decoder_.kv_width();
  Floats queries(n_rows() * q_width);
  Floats keys(n_rows() * kv_width);
  Floats values(n_rows() * kv_width);
  q.apply(pool_, inputs.data(), n_rows(), queries.data());
  k.apply(pool_, inputs.data(), n_rows(), keys.data());
  v.apply(pool_, inputs.data(), n_rows(), values.data());
  decoder_.prepare_heads(layer, weights_.vector(TensorRole::kQNorm, layer),
                         decoder_.layer().n_query_heads, positions_, queries.data());
  decoder_.prepare_heads(layer, weights_.vector(TensorRole::kKNorm, layer),
                         decoder_.layer().n_key_heads, positions_, keys.data());
  Floats out(n_rows() * q_width);
  hosted::shared_loop(pool_, sequences_.size(), [&](size_t i, size_t) {
    const size_t row = first_rows_[i];
    SequenceCache cache(decoder_.layer(), sequences_[i].size(), PanelFormat::kF32);
    decoder_.attend(layer, queries.data() + row * q_width, keys.data() + row * kv_width,
                    values.data() + row * kv_width, sequences_[i].size(), 0, &cache,
                    out.data() + row * q_width);
  });
  return out;
}

Floats FloatModel::activate(const FloatLinear& gate, const FloatLinear& up,
                            const Floats& inputs) const {
  const size_t width = gate.matrix.rows();
  Floats out(n_rows() * width);
  Floats of_up(std::min(kPartRows, n_rows()) * width);
  for (size_t row = 0; row < n_rows(); row += kPartRows) {
    const size_t n = std::min(kPartRows, n_rows() - row);
    const float* x = inputs.data() + row * config_.model->d_model;
    gate.apply(pool_, x, n, out.data() + row * width);
    up.apply(pool_, x, n, of_up.data());
    decoder_.activate(out.data() + row * width, of_up.data(), n * width);
  }
  return out;
}

void FloatModel::add_block(const FloatLinear& linear, const Floats& inputs, Floats* x) const {
  Floats block(x->size());
  linear.apply(pool_, inputs.data(), n_rows(), block.data());
  decoder_.add_residual(block.data(), n_rows(), x->data());
}

void FloatModel::run_layer(uint32_t index, const FloatLayer& layer, Floats* x) const {
  const Floats attended =
      attend(index, layer.q, layer.k, layer.v, normalize(*x, TensorRole::kMixerNorm, index));
  add_block(layer.o, attended, x);
  const Floats activated =
      activate(layer.gate, layer.up, normalize(*x, TensorRole::kFfnNorm, index));
  add_block(layer.down, activated, x);
}

void FloatModel::run(Floats* x) const {
  for (uint32_t i = 0; i < config_.model->n_layers; ++i) {
    run_layer(i, read_layer(weights_, i, PanelFormat::kF32), x);
  }
}

}  // namespace cria::converter
