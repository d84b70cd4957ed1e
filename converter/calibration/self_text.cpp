#include "converter/calibration/self_text.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "converter/calibration/divergence.h"
#include "converter/calibration/held_matrices.h"
#include "converter/calibration/weight_counts.h"
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

FloatModel::Rooms rooms_of(const SelfTextRequest& request) {
  return {request.n_sequences, request.n_tokens, request.n_sequences, KvFormat::kInt8, true};
}

class Writer {
 public:
  Writer(const Config& config, const PlannedWeights& weights, const SelfTextRequest& request,
         hosted::ThreadPool* pool)
      : config_(config),
        request_(request),
        pool_(pool),
        embedding_(weights.find(TensorRole::kEmbedding)),
        model_(config, weights, rooms_of(request), pool),
        output_(weights.panels(weights.output_layer(), PanelFormat::kBf16)),
        layers_(weights, PanelFormat::kBf16, pool) {
    for (uint32_t i = 0; i < config_.model->n_layers; ++i) layers_.read_layer(i);
    for (size_t i = 0; i < request.n_sequences; ++i) random_.emplace_back(request.seed, i);
  }

  TokenSequences write(const std::function<void(size_t, size_t)>& progress) {
    TokenSequences text(request_.n_sequences);
    for (size_t i = 0; i < text.size(); ++i) text[i].push_back(beginning(i));
    for (size_t position = 0; position + 1 < request_.n_tokens; ++position) {
      step(text, position);
      for (size_t i = 0; i < text.size(); ++i) {
        text[i].push_back(is_end(text[i].back()) ? beginning(i) : sampled_[i]);
      }
      progress((position + 1) * text.size(), request_.n_tokens * text.size());
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
    std::vector<TokenRow> rows;
    for (uint32_t i = 0; i < n; ++i) {
      rows.push_back({i, static_cast<uint32_t>(position), text[i].back()});
    }
    model_.set_rows(rows);
    Floats x(n * config_.model->d_model);
    Floats of_token(config_.model->d_model);
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < n; ++i) {
      embedding_.source->read_rows(rows[i].token, 1, &bytes, of_token.data());
      model_.embed_row(i, of_token.data(), &x);
    }
    Stream stream = model_.start(std::move(x));
    for (uint32_t i = 0; i < config_.model->n_layers; ++i) {
      model_.run_layer(i, layers_.products(), &stream);
    }
    logits_.resize(n * config_.model->vocab_size);
    multiply(pool_, model_.finish(stream.x).data(), n, output_, logits_.data());
    model_.finish_logits(n, logits_.data());
    sample(n);
  }

  void sample(size_t n) {
    sampled_.resize(n);
    const size_t vocab = config_.model->vocab_size;
    const float factor = 1.0f / request_.temperature;
    hosted::shared_loop(pool_, n, [&](size_t i, size_t) {
      float* row = logits_.data() + i * vocab;
      for (size_t j = 0; j < vocab; ++j) row[j] *= factor;
      softmax(row, vocab);
      sampled_[i] = pick(row, vocab, random_[i].next_unit());
    });
  }

  Config config_;
  const SelfTextRequest& request_;
  hosted::ThreadPool* pool_;
  const PlannedTensor& embedding_;
  FloatModel model_;
  PanelMatrix output_;
  HeldMatrices layers_;
  std::vector<RandomNumbers> random_;
  Floats logits_;
  std::vector<uint32_t> sampled_;
};

}  // namespace

TokenSequences write_self_text(const Config& config, const PlannedWeights& weights,
                               const SelfTextRequest& request, hosted::ThreadPool* pool,
                               const std::function<void(size_t, size_t)>& progress) {
  return Writer(config, weights, request, pool).write(progress);
}

uint64_t self_text_bytes(const Config& config, const SelfTextRequest& request, size_t n_threads) {
  const uint64_t table = uint64_t{config.model->d_model} * config.model->vocab_size;
  return sizeof(uint16_t) * (count_weights(config).in_layers + table) +
         sizeof(float) * request.n_sequences *
             (config.model->vocab_size + 2 * config.model->d_model) +
         FloatModel::bytes(config, rooms_of(request), n_threads);
}

}  // namespace cria::converter
