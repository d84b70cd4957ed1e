#include "tests/support/naive_decoder.h"

#include <algorithm>
#include <cmath>

#include "quant/tile16.h"

namespace cria::test {
namespace {

using Vector = std::vector<double>;
using Role = format::TensorRole;

std::vector<float> row_of(const Tensor& m, size_t row) {
  std::vector<float> values(m.shape.cols);
  unpack_row(m.shape, m.codes, m.scales, row, values.data());
  return values;
}

Vector product(const Tensor& m, bool has_bias, const Vector& x) {
  Vector y(m.shape.rows);
  for (size_t row = 0; row < y.size(); ++row) {
    const std::vector<float> w = row_of(m, row);
    for (size_t i = 0; i < x.size(); ++i) y[row] += static_cast<double>(w[i]) * x[i];
    if (has_bias) y[row] += static_cast<double>(m.bias[row]);
  }
  return y;
}

void normalize(const float* weight, double epsilon, double* x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  const double r = 1 / std::sqrt(sum / static_cast<double>(n) + epsilon);
  for (size_t i = 0; i < n; ++i) x[i] *= r * static_cast<double>(weight[i]);
}

class NaiveDecoder {
 public:
  NaiveDecoder(const cria_model& model, const format::ModelConfig& config, uint32_t context)
      : w_(model.weights), c_(config), keys_(config.n_layers), values_(config.n_layers) {
    const bool is_long = (c_.flags & format::kLongRope) != 0 && context > c_.original_context;
    const Role role = is_long ? Role::kRopeLongInverseFrequencies : Role::kRopeInverseFrequencies;
    frequencies_ = w_.outside.find(role)->floats();
  }

  Vector next(uint32_t token) {
    const std::vector<float> embedded = row_of(*w_.outside.find(Role::kEmbedding), token);
    Vector x(embedded.begin(), embedded.end());
    for (double& value : x) value *= static_cast<double>(c_.embedding_multiplier);
    for (size_t layer = 0; layer < c_.n_layers; ++layer) {
      const Layer& l = w_.layers[layer];
      add(attention(layer, normalized(x, *l.find(Role::kAttentionNorm))), &x);
      add(feed_forward(l, normalized(x, *l.find(Role::kFfnNorm))), &x);
    }
    ++position_;
    Vector logits = product(*w_.outside.find(Role::kLmHead), false,
                            normalized(x, *w_.outside.find(Role::kFinalNorm)));
    for (double& value : logits) value /= static_cast<double>(c_.logits_divisor);
    return logits;
  }

 private:
  [[nodiscard]] bool has(uint32_t flag) const { return (c_.flags & flag) != 0; }

  [[nodiscard]] Vector normalized(Vector x, const Tensor& weight) const {
    normalize(weight.floats(), static_cast<double>(c_.rms_epsilon), x.data(), x.size());
    return x;
  }

  void add(const Vector& y, Vector* x) const {
    for (size_t i = 0; i < y.size(); ++i) {
      (*x)[i] += y[i] * static_cast<double>(c_.residual_multiplier);
    }
  }

  [[nodiscard]] bool turns(size_t layer) const {
    if (c_.no_rope_period == 0) return true;
    const size_t i = layer % c_.no_rope_period;
    return (c_.no_rope_layers[i / 32] & 1u << i % 32) == 0;
  }

  // Heads, one behind the other: normalized where norms are, turned where the layer turns.
  void prepare(size_t layer, const Tensor* norm, Vector* heads) const {
    const size_t half = (c_.rotary_dim != 0 ? c_.rotary_dim : c_.head_dim) / 2;
    for (size_t at = 0; at < heads->size(); at += c_.head_dim) {
      double* x = heads->data() + at;
      if (has(format::kQkNorm)) {
        normalize(norm->floats(), static_cast<double>(c_.rms_epsilon), x, c_.head_dim);
      }
      for (size_t i = 0; turns(layer) && i < half; ++i) {
        const auto angle = static_cast<double>(static_cast<float>(position_) * frequencies_[i]);
        const double cosine = std::cos(angle) * static_cast<double>(c_.rope_factor);
        const double sine = std::sin(angle) * static_cast<double>(c_.rope_factor);
        const double a = x[i];
        const double b = x[i + half];
        x[i] = a * cosine - b * sine;
        x[i + half] = b * cosine + a * sine;
      }
    }
  }

  Vector attention(size_t layer, const Vector& x) {
    const Layer& l = w_.layers[layer];
    Vector q = product(*l.find(Role::kQ), has(format::kQkvBias), x);
    Vector k = product(*l.find(Role::kK), has(format::kQkvBias), x);
    prepare(layer, l.find(Role::kQNorm), &q);
    prepare(layer, l.find(Role::kKNorm), &k);
    keys_[layer].push_back(std::move(k));
    values_[layer].push_back(product(*l.find(Role::kV), has(format::kQkvBias), x));
    const size_t end = position_ + 1;
    const size_t begin =
        c_.sliding_window != 0 && end > c_.sliding_window ? end - c_.sliding_window : 0;
    Vector out(q.size());
    for (size_t head = 0; head < c_.n_heads; ++head) {
      const size_t of_q = head * c_.head_dim;
      const size_t of_kv = head / (c_.n_heads / c_.n_kv_heads) * c_.head_dim;
      Vector scores(end);
      for (size_t j = begin; j < end; ++j) {
        for (size_t d = 0; d < c_.head_dim; ++d) {
          scores[j] += q[of_q + d] * keys_[layer][j][of_kv + d];
        }
        scores[j] *= static_cast<double>(c_.attention_multiplier);
      }
      const double most =
          *std::max_element(scores.begin() + static_cast<std::ptrdiff_t>(begin), scores.end());
      double total = 0;
      for (size_t j = begin; j < end; ++j) total += std::exp(scores[j] - most);
      for (size_t j = begin; j < end; ++j) {
        const double share = std::exp(scores[j] - most) / total;
        for (size_t d = 0; d < c_.head_dim; ++d) {
          out[of_q + d] += share * values_[layer][j][of_kv + d];
        }
      }
    }
    return product(*l.find(Role::kO), has(format::kOutputBias), out);
  }

  [[nodiscard]] Vector feed_forward(const Layer& l, const Vector& x) const {
    Vector gate = product(*l.find(Role::kGate), has(format::kMlpBias), x);
    const Vector up = product(*l.find(Role::kUp), has(format::kMlpBias), x);
    for (size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
    return product(*l.find(Role::kDown), has(format::kMlpBias), gate);
  }

  const Weights& w_;
  const format::ModelConfig& c_;
  const float* frequencies_;
  size_t position_ = 0;
  std::vector<std::vector<Vector>> keys_;    // [layer][position]
  std::vector<std::vector<Vector>> values_;  // [layer][position]
};

}  // namespace

std::vector<double> naive_logits(const cria_model& model, const format::ModelConfig& config,
                                 uint32_t context, std::span<const uint32_t> tokens) {
  NaiveDecoder decoder(model, config, context);
  std::vector<double> all;
  for (const uint32_t token : tokens) {
    const Vector logits = decoder.next(token);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

}  // namespace cria::test
