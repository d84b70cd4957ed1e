#include "converter/calibration/self_text.h"

#include <algorithm>
#include <bit>

#include "platforms/hosted/base/shared_loop.h"

namespace cria::converter {
namespace {

using format::TensorRole;

// PCG32 (O'Neill 2014, XSH-RR 64/32); a stream for each sequence.
class RandomNumbers {
 public:
  RandomNumbers(uint64_t seed, uint64_t stream) : increment_(stream * 2 + 1) {
    static_cast<void>(next());
    state_ += seed;
    static_cast<void>(next());
  }
  uint32_t next() {
    constexpr uint64_t kMultiplier = 6364136223846793005u;
    const uint64_t old = state_;
    state_ = old * kMultiplier + increment_;
    const auto shifted = static_cast<uint32_t>(((old >> 18) ^ old) >> 27);
    return std::rotr(shifted, static_cast<int>(old >> 59));
  }
  // Uniform in [0, 1), a multiple of 2^-24.
  float next_unit() { return static_cast<float>(next() >> 8) * 0x1p-24f; }

 private:
  uint64_t state_ = 0;
  uint64_t increment_;
};

// The token that a random number picks by the probabilities.
uint32_t pick(const float* probabilities, size_t n, float unit) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    sum += static_cast<double>(probabilities[i]);
    if (static_cast<double>(unit) < sum) return static_cast<uint32_t>(i);
  }
  // Rounding left the sum below the number: the likeliest.
  return static_cast<uint32_t>(std::max_element(probabilities, probabilities + n) - probabilities);
}

class Writer {
 public:
  Writer(const FloatDecoder& decoder, const PlannedWeights& weights, const SelfTextWish& wish,
         hosted::ThreadPool* pool)
      : decoder_(decoder),
        config_(decoder.config()),
        wish_(wish),
        pool_(pool),
        embedding_(*weights.find(TensorRole::kEmbedding, format::kNone)),
        final_norm_(weights.vector(TensorRole::kFinalNorm, format::kNone)) {
    const bool tied = has_flag(config_, format::kTiedEmbedding);
    output_ = weights.panels(tied ? TensorRole::kEmbedding : TensorRole::kLmHead, format::kNone,
                             PanelFormat::kBf16);
    for (uint32_t i = 0; i < config_.model->n_layers; ++i) {
      layers_.push_back(read_layer(weights, i, PanelFormat::kBf16));
    }
    caches_.resize(config_.model->n_layers);
    for (std::vector<SequenceCache>& caches : caches_) {
      caches.assign(wish.n_sequences,
                    SequenceCache(decoder.layer(), wish.n_tokens, PanelFormat::kBf16));
    }
    for (size_t i = 0; i < wish.n_sequences; ++i) random_.emplace_back(wish.seed, i);
  }

  TokenSequences write(const std::function<void(size_t, size_t)>& progress) {
    TokenSequences text(wish_.n_sequences);
    for (size_t i = 0; i < text.size(); ++i) text[i].push_back(beginning(i));
    for (size_t position = 0; position + 1 < wish_.n_tokens; ++position) {
      step(text, position);
      for (size_t i = 0; i < text.size(); ++i) {
        text[i].push_back(is_end(text[i].back()) ? beginning(i) : sampled_[i]);
      }
      progress((position + 1) * text.size(), wish_.n_tokens * text.size());
    }
    return text;
  }

 private:
  uint32_t beginning(size_t sequence) {
    return config_.model->bos_token != format::kNone
               ? config_.model->bos_token
               : random_[sequence].next() % config_.model->vocab_size;
  }

  [[nodiscard]] bool is_end(uint32_t token) const {
    const uint32_t* end = config_.model->end_tokens + config_.model->n_end_tokens;
    return std::find(config_.model->end_tokens, end, token) != end;
  }

  // The last token of each sequence goes through; sampled_ is what follows.
  void step(const TokenSequences& text, size_t position) {
    const size_t n = text.size();
    const size_t width = config_.model->d_model;
    x_.resize(n * width);
    normed_.resize(n * std::max(width, decoder_.q_width()));
    projected_.resize(n * width);
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < n; ++i) {
      float* row = x_.data() + i * width;
      embedding_.source->read_rows(text[i].back(), 1, &bytes, row);
      decoder_.scale_embedding(row);
    }
    positions_.assign(n, position);
    for (size_t i = 0; i < layers_.size(); ++i) run_layer(i, n);
    decoder_.normalize(x_.data(), n, final_norm_, normed_.data());
    logits_.resize(n * config_.model->vocab_size);
    multiply(pool_, normed_.data(), n, output_, logits_.data());
    sample(n);
  }

  void run_layer(size_t index, size_t n) {
    const FloatLayer& layer = layers_[index];
    decoder_.normalize(x_.data(), n, layer.attention_norm, normed_.data());
    q_.resize(n * decoder_.q_width());
    k_.resize(n * decoder_.kv_width());
    v_.resize(n * decoder_.kv_width());
    layer.q.apply(pool_, normed_.data(), n, q_.data());
    layer.k.apply(pool_, normed_.data(), n, k_.data());
    layer.v.apply(pool_, normed_.data(), n, v_.data());
    decoder_.prepare_heads(index, layer.q_norm, decoder_.layer().n_query_heads, positions_,
                           q_.data());
    decoder_.prepare_heads(index, layer.k_norm, decoder_.layer().n_key_heads, positions_,
                           k_.data());
    hosted::shared_loop(pool_, n, [&](size_t i, size_t) {
      decoder_.attend(index, q_.data() + i * decoder_.q_width(),
                      k_.data() + i * decoder_.kv_width(), v_.data() + i * decoder_.kv_width(), 1,
                      positions_[i], &caches_[index][i], normed_.data() + i * decoder_.q_width());
    });
    layer.o.apply(pool_, normed_.data(), n, projected_.data());
    decoder_.add_residual(projected_.data(), n, x_.data());
    decoder_.normalize(x_.data(), n, layer.ffn_norm, normed_.data());
    gate_.resize(n * layer.gate.matrix.rows());
    up_.resize(gate_.size());
    layer.gate.apply(pool_, normed_.data(), n, gate_.data());
    layer.up.apply(pool_, normed_.data(), n, up_.data());
    decoder_.activate(gate_.data(), up_.data(), gate_.size());
    layer.down.apply(pool_, gate_.data(), n, projected_.data());
    decoder_.add_residual(projected_.data(), n, x_.data());
  }

  void sample(size_t n) {
    sampled_.resize(n);
    const size_t vocab = config_.model->vocab_size;
    const float factor = 1.0f / (wish_.temperature * config_.model->logits_divisor);
    hosted::shared_loop(pool_, n, [&](size_t i, size_t) {
      float* row = logits_.data() + i * vocab;
      for (size_t j = 0; j < vocab; ++j) row[j] *= factor;
      softmax(row, vocab);
      sampled_[i] = pick(row, vocab, random_[i].next_unit());
    });
  }

  const FloatDecoder& decoder_;
  Config config_;
  const SelfTextWish& wish_;
  hosted::ThreadPool* pool_;
  const PlannedTensor& embedding_;
  std::vector<float> final_norm_;
  PanelMatrix output_;
  std::vector<FloatLayer> layers_;
  std::vector<std::vector<SequenceCache>> caches_;  // [layer][sequence]
  std::vector<RandomNumbers> random_;
  std::vector<size_t> positions_;
  std::vector<float> x_, normed_, projected_, q_, k_, v_, gate_, up_, logits_;
  std::vector<uint32_t> sampled_;
};

}  // namespace

TokenSequences write_self_text(const FloatDecoder& decoder, const PlannedWeights& weights,
                               const SelfTextWish& wish, hosted::ThreadPool* pool,
                               const std::function<void(size_t, size_t)>& progress) {
  return Writer(decoder, weights, wish, pool).write(progress);
}

}  // namespace cria::converter
