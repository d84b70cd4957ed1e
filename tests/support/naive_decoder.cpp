#include "tests/support/naive_decoder.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <set>
#include <stdexcept>

#include "quant/model/model_layout.h"
#include "tests/support/naive_tensors.h"

namespace cria::test {
namespace {

namespace flag = format::flag;
using format::LayerKind;
using format::TensorRole;
using Vector = std::vector<double>;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double capped(double x, float cap) {
  const auto c = static_cast<double>(cap);
  return c == 0 ? x : c * std::tanh(x / c);
}

// The role of a matrix's bias.
constexpr auto kNoRole = static_cast<TensorRole>(UINT16_MAX);
TensorRole bias_of(TensorRole role) {
  switch (role) {
    case TensorRole::kQ:
      return TensorRole::kQBias;
    case TensorRole::kK:
      return TensorRole::kKBias;
    case TensorRole::kV:
      return TensorRole::kVBias;
    case TensorRole::kQDown:
      return TensorRole::kQDownBias;
    case TensorRole::kLatentDown:
      return TensorRole::kLatentDownBias;
    case TensorRole::kMixerGate:
      return TensorRole::kMixerGateBias;
    case TensorRole::kDecayIn:
      return TensorRole::kDecayInBias;
    case TensorRole::kBetaIn:
      return TensorRole::kBetaInBias;
    case TensorRole::kO:
      return TensorRole::kOBias;
    case TensorRole::kGate:
      return TensorRole::kGateBias;
    case TensorRole::kUp:
      return TensorRole::kUpBias;
    case TensorRole::kDown:
      return TensorRole::kDownBias;
    case TensorRole::kRouter:
      return TensorRole::kRouterBias;
    case TensorRole::kExpertGate:
      return TensorRole::kExpertGateBias;
    case TensorRole::kExpertUp:
      return TensorRole::kExpertUpBias;
    case TensorRole::kExpertDown:
      return TensorRole::kExpertDownBias;
    default:
      return kNoRole;
  }
}

// x / sqrt(mean of squares + epsilon) * weight, of n values.
void rms(const NaiveTensor& weight, float epsilon, double* x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += x[i] * x[i];
  const double r = 1 / std::sqrt(sum / static_cast<double>(n) + static_cast<double>(epsilon));
  for (size_t i = 0; i < n; ++i) x[i] *= r * static_cast<double>(weight.values[i]);
}

// Weights, then biases.
void layer_norm(const NaiveTensor& weight, float epsilon, Vector* x) {
  const auto n = static_cast<double>(x->size());
  double mean = 0;
  for (const double value : *x) mean += value / n;
  for (double& value : *x) value -= mean;
  double sum = 0;
  for (const double value : *x) sum += value * value;
  const double r = 1 / std::sqrt(sum / n + static_cast<double>(epsilon));
  for (size_t i = 0; i < x->size(); ++i) {
    (*x)[i] = (*x)[i] * r * static_cast<double>(weight.values[i]) +
              static_cast<double>(weight.values[x->size() + i]);
  }
}

Vector normalized(uint32_t norm, const NaiveTensor& weight, float epsilon, Vector x) {
  if (norm == static_cast<uint32_t>(format::Norm::kLayerNorm)) {
    layer_norm(weight, epsilon, &x);
  } else {
    rms(weight, epsilon, x.data(), x.size());
  }
  return x;
}

double activated(const LayerKind& k, double x) {
  switch (static_cast<format::Activation>(k.activation)) {
    case format::Activation::kSilu:
      return x * sigmoid(x);
    case format::Activation::kGelu:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
    case format::Activation::kReluSquared:
      return x < 0 ? 0 : x * x;
    case format::Activation::kClampedSwiglu:
      break;
  }
  throw std::invalid_argument("an activation of two values");
}

double activated(const LayerKind& k, double gate, double up) {
  if (k.activation != static_cast<uint8_t>(format::Activation::kClampedSwiglu)) {
    return activated(k, gate) * up;
  }
  const auto limit = static_cast<double>(k.activation_limit);
  const double g = std::min(gate, limit);
  const double u = std::clamp(up, -limit, limit);
  return (u + 1) * g * sigmoid(static_cast<double>(k.activation_alpha) * g);
}

class NaiveDecoder {
 public:
  NaiveDecoder(const NaiveTensors& tensors, const Config& config, uint32_t context)
      : tensors_(tensors),
        c_(config),
        m_(*config.model),
        context_(context),
        keys_(config.layers.size()),
        values_(config.layers.size()),
        states_(config.layers.size()) {
    TensorWalk walk(config);
    for (TensorSpec spec = {}; walk.next(kMatrixFormats[0], &spec);) {
      used_.insert({spec.layer, spec.role});
    }
  }

  // What the output matrix reads of the next token.
  Vector next(uint32_t token) {
    Vector x = embedded(token);
    const Vector x0 = x;
    for (uint32_t layer = 0; layer < c_.layers.size(); ++layer) {
      const LayerKind& k = c_.kind_of(layer);
      if (k.mixer != 0) {
        const Vector y = mixer(layer, before(layer, TensorRole::kMixerNorm, x));
        add(before(layer, TensorRole::kMixerOutNorm, y), m_.residual_multiplier, &x);
      }
      if (k.feed_forward != 0) {
        const Vector y = feed_forward(layer, x, before(layer, TensorRole::kFfnNorm, x));
        add(before(layer, TensorRole::kFfnOutNorm, y), m_.residual_multiplier, &x);
      }
      if (has_flag(k, flag::kPerLayerInput)) add(per_layer(layer, token, x0, x), 1, &x);
      if (const NaiveTensor* scale = find(layer, TensorRole::kLayerScale)) {
        for (double& value : x) value *= static_cast<double>(scale->values[0]);
      }
    }
    ++position_;
    return normalized(m_.final_norm, tensor(format::kNone, TensorRole::kFinalNorm), m_.norm_epsilon,
                      x);
  }

  [[nodiscard]] Vector logits(const Vector& hidden) const {
    const bool is_tied = has_flag(c_, format::kTiedEmbedding);
    Vector y =
        product(format::kNone, is_tied ? TensorRole::kEmbedding : TensorRole::kLmHead, hidden);
    for (double& value : y) {
      value = capped(value / static_cast<double>(m_.logits_divisor), m_.logits_cap);
    }
    return y;
  }

 private:
  // Of the file's tensors those that the config has.
  [[nodiscard]] const NaiveTensor* find(uint32_t layer, TensorRole role) const {
    return used_.count({layer, role}) == 0 ? nullptr : tensors_.find(layer, role);
  }
  [[nodiscard]] const NaiveTensor& tensor(uint32_t layer, TensorRole role) const {
    const NaiveTensor* const found = find(layer, role);
    if (found == nullptr) throw std::invalid_argument("a tensor is not in the model");
    return *found;
  }

  // Matrix number `matrix` of a role times x, and its bias if there is one.
  [[nodiscard]] Vector product(uint32_t layer, TensorRole role, const Vector& x,
                               size_t matrix = 0) const {
    const NaiveTensor& w = tensor(layer, role);
    const NaiveTensor* const bias = find(layer, bias_of(role));
    Vector y(w.rows);
    for (size_t row = 0; row < w.rows; ++row) {
      const std::span<const float> weights = w.row(row, matrix);
      for (size_t i = 0; i < x.size(); ++i) y[row] += static_cast<double>(weights[i]) * x[i];
      if (bias != nullptr) y[row] += static_cast<double>(bias->values[matrix * w.rows + row]);
    }
    return y;
  }

  // The model around its layers ------------------------------------------------------------------

  [[nodiscard]] Vector embedded(uint32_t token) const {
    const std::span<const float> row = tensor(format::kNone, TensorRole::kEmbedding).row(token);
    Vector x(row.begin(), row.end());
    for (double& value : x) value *= static_cast<double>(m_.embedding_multiplier);
    if (const NaiveTensor* positions = find(format::kNone, TensorRole::kPositions)) {
      for (size_t i = 0; i < x.size(); ++i) {
        x[i] += static_cast<double>(positions->values[position_ * x.size() + i]);
      }
    }
    return x;
  }

  // x normalized, or x where the layer has no such norm.
  [[nodiscard]] Vector before(uint32_t layer, TensorRole norm, const Vector& x) const {
    const NaiveTensor* const weight = find(layer, norm);
    if (weight == nullptr) return x;
    const LayerKind& k = c_.kind_of(layer);
    return normalized(k.norm, *weight, k.norm_epsilon, x);
  }

  static void add(const Vector& y, float multiplier, Vector* x) {
    for (size_t i = 0; i < y.size(); ++i) (*x)[i] += y[i] * static_cast<double>(multiplier);
  }

  [[nodiscard]] Vector per_layer(uint32_t layer, uint32_t token, const Vector& x0,
                                 const Vector& x) const {
    Vector s = product(format::kNone, TensorRole::kPerLayerProjection, x0, layer);
    for (double& value : s) value *= static_cast<double>(m_.per_layer_input_multiplier);
    rms(tensor(format::kNone, TensorRole::kPerLayerNorm), m_.norm_epsilon, s.data(), s.size());
    const std::span<const float> row =
        tensor(format::kNone, TensorRole::kPerLayerTable).row(size_t{token} * m_.n_layers + layer);
    Vector gate = product(layer, TensorRole::kPerLayerGate, x);
    for (size_t i = 0; i < s.size(); ++i) {
      s[i] += static_cast<double>(row[i]) * static_cast<double>(m_.per_layer_table_multiplier);
      s[i] *= static_cast<double>(m_.per_layer_sum_multiplier);
      gate[i] = activated(c_.kind_of(layer), gate[i]) * s[i];
    }
    return before(layer, TensorRole::kPerLayerOutNorm,
                  product(layer, TensorRole::kPerLayerOut, gate));
  }

  // Blocks, a function each ----------------------------------------------------------------------

  [[nodiscard]] Vector mixer(uint32_t layer, const Vector& n) {
    switch (static_cast<format::Mixer>(c_.kind_of(layer).mixer)) {
      case format::Mixer::kAttention:
        return attention(layer, n);
      case format::Mixer::kLatentAttention:
        return latent_attention(layer, n);
      case format::Mixer::kShortConvolution:
        return short_convolution(layer, n);
      case format::Mixer::kDeltaRule:
        return delta_rule(layer, n);
      case format::Mixer::kStateSpace:
        return state_space(layer, n);
      default:
        throw std::invalid_argument("a mixer that the naive decoder does not have");
    }
  }

  [[nodiscard]] Vector feed_forward(uint32_t layer, const Vector& x, const Vector& n) const {
    switch (static_cast<format::FeedForward>(c_.kind_of(layer).feed_forward)) {
      case format::FeedForward::kDense:
        return dense(layer, n);
      case format::FeedForward::kExperts:
        return experts(layer, x, n);
      default:
        throw std::invalid_argument("a feed-forward that the naive decoder does not have");
    }
  }

  // act(gate) * up or act(up), of a matrix or of one of a stack.
  [[nodiscard]] Vector hidden(uint32_t layer, TensorRole gates, TensorRole ups, const Vector& n,
                              size_t matrix = 0) const {
    const LayerKind& k = c_.kind_of(layer);
    Vector a = product(layer, ups, n, matrix);
    if (has_flag(k, flag::kGated)) {
      const Vector gate = product(layer, gates, n, matrix);
      for (size_t i = 0; i < a.size(); ++i) a[i] = activated(k, gate[i], a[i]);
    } else {
      for (double& value : a) value = activated(k, value);
    }
    return a;
  }

  [[nodiscard]] Vector dense(uint32_t layer, const Vector& n) const {
    Vector a = hidden(layer, TensorRole::kGate, TensorRole::kUp, n);
    if (const NaiveTensor* norm = find(layer, TensorRole::kFfnInnerNorm)) {
      rms(*norm, c_.kind_of(layer).inner_epsilon, a.data(), a.size());
    }
    return product(layer, TensorRole::kDown, a);
  }

  // Indices by falling values, of equals the lower first.
  static std::vector<size_t> by_value(const Vector& values) {
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return values[a] > values[b]; });
    return order;
  }

  // What counts for the choice, of experts outside the chosen groups nothing.
  static void keep_groups(const LayerKind& k, Vector* ranked) {
    if (k.n_groups == 0) return;
    const size_t in_group = ranked->size() / k.n_groups;
    Vector groups;
    for (size_t group = 0; group < k.n_groups; ++group) {
      const auto begin = ranked->begin() + static_cast<std::ptrdiff_t>(group * in_group);
      Vector values(begin, begin + static_cast<std::ptrdiff_t>(in_group));
      std::sort(values.rbegin(), values.rend());
      groups.push_back(values[0] + (k.group_rank == 2 ? values[1] : 0));
    }
    const std::vector<size_t> order = by_value(groups);
    for (size_t i = k.n_groups_chosen; i < order.size(); ++i) {
      for (size_t j = 0; j < in_group; ++j) (*ranked)[order[i] * in_group + j] = -HUGE_VAL;
    }
  }

  [[nodiscard]] Vector scores_of(const LayerKind& k, Vector logits) const {
    if (k.router_score == static_cast<uint8_t>(format::RouterScore::kSoftmax)) {
      softmax(nullptr, 0, &logits);
    } else {
      for (double& value : logits) value = sigmoid(value);
    }
    return logits;
  }

  [[nodiscard]] Vector experts(uint32_t layer, const Vector& x, const Vector& n) const {
    const LayerKind& k = c_.kind_of(layer);
    Vector read = n;
    if (const NaiveTensor* norm = find(layer, TensorRole::kRouterNorm)) {
      read = x;
      rms(*norm, k.inner_epsilon, read.data(), read.size());
    }
    const Vector logits = product(layer, TensorRole::kRouter, read);
    const Vector scores = scores_of(k, logits);
    const bool by_logits = k.router_score == static_cast<uint8_t>(format::RouterScore::kSoftmax);
    Vector ranked = by_logits ? logits : scores;
    if (const NaiveTensor* bias = find(layer, TensorRole::kChoiceBias)) {
      ranked = scores;
      for (size_t i = 0; i < ranked.size(); ++i) ranked[i] += static_cast<double>(bias->values[i]);
    }
    keep_groups(k, &ranked);
    std::vector<size_t> chosen = by_value(ranked);
    chosen.resize(k.n_chosen);
    double divisor = has_flag(k, flag::kNormalizedChoice) ? 0 : 1;
    if (divisor == 0) {
      for (const size_t expert : chosen) divisor += scores[expert];
      divisor += static_cast<double>(k.router_epsilon);
    }
    const bool has_branches = has_flag(k, flag::kBranchNorms);
    const Vector own = has_branches ? before(layer, TensorRole::kExpertNorm, x) : n;
    Vector y(n.size());
    for (const size_t expert : chosen) {
      double weight = scores[expert] / divisor * static_cast<double>(k.router_scale);
      if (const NaiveTensor* factor = find(layer, TensorRole::kExpertScale)) {
        weight *= static_cast<double>(factor->values[expert]);
      }
      const Vector a = hidden(layer, TensorRole::kExpertGate, TensorRole::kExpertUp, own, expert);
      const Vector out = product(layer, TensorRole::kExpertDown, a, expert);
      for (size_t i = 0; i < y.size(); ++i) y[i] += weight * out[i];
    }
    y = before(layer, TensorRole::kExpertOutNorm, y);
    if (k.d_ff != 0) add(beside(layer, n), 1, &y);
    return y;
  }

  [[nodiscard]] Vector beside(uint32_t layer, const Vector& n) const {
    Vector y = dense(layer, n);
    if (const NaiveTensor* gate = find(layer, TensorRole::kSharedGate)) {
      double sum = 0;
      for (size_t i = 0; i < n.size(); ++i) sum += static_cast<double>(gate->values[i]) * n[i];
      for (double& value : y) value *= sigmoid(sum);
    }
    return before(layer, TensorRole::kSharedOutNorm, y);
  }

  // Turns element i of each head with element i + n_pairs, by the table's rates for this context.
  void turn(const LayerKind& k, size_t head_dim, Vector* heads) const {
    if (k.rope_table == format::kNoTable) return;
    const std::vector<float>& rates = tensor(format::kNone, TensorRole::kRope).values;
    size_t first = 0;
    for (size_t i = 0; i < k.rope_table; ++i) {
      const format::RopeTable& table = tensors_.config().model.rope_tables[i];
      first += table.original_context != 0 ? 2 * size_t{table.n_pairs} : table.n_pairs;
    }
    const format::RopeTable& table = m_.rope_tables[k.rope_table];
    if (table.original_context != 0 && context_ > table.original_context) first += table.n_pairs;
    for (size_t at = 0; at < heads->size(); at += head_dim) {
      double* const x = heads->data() + at;
      for (size_t i = 0; i < table.n_pairs; ++i) {
        const auto angle = static_cast<double>(static_cast<float>(position_) * rates[first + i]);
        const double cosine = std::cos(angle) * static_cast<double>(table.factor);
        const double sine = std::sin(angle) * static_cast<double>(table.factor);
        const double a = x[i];
        const double b = x[i + table.n_pairs];
        x[i] = a * cosine - b * sine;
        x[i + table.n_pairs] = b * cosine + a * sine;
      }
    }
  }

  // Norms of heads, or of all of them together.
  void normalize_heads(uint32_t layer, TensorRole role, size_t head_dim, Vector* heads) const {
    const NaiveTensor* const weight = find(layer, role);
    if (weight == nullptr) return;
    const LayerKind& k = c_.kind_of(layer);
    const size_t n =
        has_flag(k, flag::kWholeNorms) && role != TensorRole::kVNorm ? heads->size() : head_dim;
    for (size_t at = 0; at < heads->size(); at += n) {
      rms(*weight, k.inner_epsilon, heads->data() + at, n);
    }
  }

  static void clip(const LayerKind& k, Vector* x) {
    const auto most = static_cast<double>(k.qkv_clip);
    if (most == 0) return;
    for (double& value : *x) value = std::clamp(value, -most, most);
  }

  // The layer whose keys and values this one reads.
  [[nodiscard]] uint32_t owner(uint32_t layer) const {
    const uint8_t kind = c_.kind_of(layer).shared_with;
    while (kind != format::kNoKind && c_.layers[layer] != kind) --layer;
    return layer;
  }

  void keep_keys_and_values(uint32_t layer, const Vector& n) {
    const LayerKind& k = c_.kind_of(layer);
    Vector keys = product(layer, TensorRole::kK, n);
    Vector values = has_flag(k, flag::kValuesAreKeys) ? keys : product(layer, TensorRole::kV, n);
    normalize_heads(layer, TensorRole::kKNorm, k.key_dim, &keys);
    normalize_heads(layer, TensorRole::kVNorm, k.value_dim, &values);
    clip(k, &keys);
    clip(k, &values);
    turn(k, k.key_dim, &keys);
    keys_[layer].push_back(std::move(keys));
    values_[layer].push_back(std::move(values));
  }

  // Makes the scores of positions begin.. shares of one, part of which a sink may take.
  static void softmax(const float* sink, size_t begin, Vector* scores) {
    double most = sink != nullptr ? static_cast<double>(*sink) : (*scores)[begin];
    for (size_t j = begin; j < scores->size(); ++j) most = std::max(most, (*scores)[j]);
    double total = sink != nullptr ? std::exp(static_cast<double>(*sink) - most) : 0;
    for (size_t j = begin; j < scores->size(); ++j) total += std::exp((*scores)[j] - most);
    for (size_t j = begin; j < scores->size(); ++j) {
      (*scores)[j] = std::exp((*scores)[j] - most) / total;
    }
  }

  void grow(const LayerKind& k, Vector* q) const {
    if (k.query_growth == 0) return;
    const auto periods = static_cast<double>(position_ / k.query_growth_period);
    for (double& x : *q) x *= 1 + static_cast<double>(k.query_growth) * std::log(1 + periods);
  }

  [[nodiscard]] size_t first_seen(const LayerKind& k) const {
    return k.window != 0 && position_ + 1 > k.window ? position_ + 1 - k.window : 0;
  }

  // Each head's keys and values are made of the compressed rows, which the runtime never does.
  [[nodiscard]] Vector latent_attention(uint32_t layer, const Vector& n) {
    const LayerKind& k = c_.kind_of(layer);
    const size_t own = size_t{k.key_dim} - k.shared_key_dim;
    Vector row = product(layer, TensorRole::kLatentDown, n);
    normalize_heads(layer, TensorRole::kLatentNorm, row.size(), &row);
    Vector shared = k.shared_key_dim != 0 ? product(layer, TensorRole::kK, n) : Vector();
    if (!shared.empty()) turn(k, shared.size(), &shared);
    keys_[layer].push_back(std::move(shared));
    values_[layer].push_back(std::move(row));
    Vector q = n;
    if (k.query_rank != 0) {
      q = product(layer, TensorRole::kQDown, n);
      normalize_heads(layer, TensorRole::kQDownNorm, q.size(), &q);
    }
    q = product(layer, TensorRole::kQ, q);
    grow(k, &q);
    Vector y;
    for (size_t head = 0; head < k.n_query_heads; ++head) {
      const double* const q_own = q.data() + head * k.key_dim;
      Vector turned(q_own + own, q_own + k.key_dim);
      if (!turned.empty()) turn(k, turned.size(), &turned);
      const NaiveTensor& key_up = tensor(layer, TensorRole::kKeyUp);
      std::vector<Vector> values;
      Vector scores;
      for (size_t j = 0; j <= position_; ++j) {
        const Vector& from = values_[layer][j];
        values.push_back(product(layer, TensorRole::kValueUp, from, head));
        double score = 0;
        for (size_t d = 0; d < own; ++d) {
          double key = 0;
          for (size_t i = 0; i < from.size(); ++i) {
            key += static_cast<double>(key_up.row(i, head)[d]) * from[i];
          }
          score += q_own[d] * key;
        }
        for (size_t d = 0; d < turned.size(); ++d) score += turned[d] * keys_[layer][j][d];
        scores.push_back(capped(score * static_cast<double>(k.score_multiplier), k.score_cap));
      }
      softmax(nullptr, first_seen(k), &scores);
      Vector sum(k.value_dim);
      for (size_t j = first_seen(k); j <= position_; ++j) {
        for (size_t d = 0; d < sum.size(); ++d) sum[d] += scores[j] * values[j][d];
      }
      y.insert(y.end(), sum.begin(), sum.end());
    }
    return product(layer, TensorRole::kO, y);
  }

  // Of channels over all that was convolved so far, however little of it is read.
  [[nodiscard]] Vector convolved(uint32_t layer, Vector u) {
    const size_t n_taps = c_.kind_of(layer).conv_taps;
    keys_[layer].push_back(std::move(u));
    const std::vector<Vector>& all = keys_[layer];
    const std::vector<float>& taps = tensor(layer, TensorRole::kConvolution).values;
    const NaiveTensor* const bias = find(layer, TensorRole::kConvolutionBias);
    Vector y(all[position_].size());
    for (size_t i = 0; i < y.size(); ++i) {
      if (bias != nullptr) y[i] = static_cast<double>(bias->values[i]);
      for (size_t tap = 0; tap < n_taps; ++tap) {
        const size_t back = n_taps - 1 - tap;
        if (back > position_) continue;
        y[i] += static_cast<double>(taps[tap * y.size() + i]) * all[position_ - back][i];
      }
    }
    return y;
  }

  [[nodiscard]] Vector short_convolution(uint32_t layer, const Vector& n) {
    Vector u = product(layer, TensorRole::kK, n);
    const Vector v = product(layer, TensorRole::kV, n);
    for (size_t i = 0; i < u.size(); ++i) u[i] *= v[i];
    u = convolved(layer, std::move(u));
    Vector y = product(layer, TensorRole::kQ, n);
    for (size_t i = 0; i < y.size(); ++i) y[i] *= u[i];
    return product(layer, TensorRole::kO, y);
  }

  // What the delta rule and state spaces read: heads after the convolution.
  struct Heads {
    Vector q;
    Vector k;
    Vector v;
  };
  [[nodiscard]] Heads convolved_heads(uint32_t layer, const Vector& n) {
    Heads h = {product(layer, TensorRole::kQ, n), product(layer, TensorRole::kK, n),
               product(layer, TensorRole::kV, n)};
    Vector all = h.q;
    all.insert(all.end(), h.k.begin(), h.k.end());
    all.insert(all.end(), h.v.begin(), h.v.end());
    all = convolved(layer, std::move(all));
    const double* from = all.data();
    for (Vector* part : {&h.q, &h.k, &h.v}) {
      for (double& x : *part) {
        x = *from * sigmoid(*from);
        ++from;
      }
    }
    return h;
  }

  // ln(1 + e^x) of each value head.
  [[nodiscard]] Vector steps_of(uint32_t layer, const Vector& n) const {
    Vector steps = product(layer, TensorRole::kDecayIn, n);
    const std::vector<float>& biases = tensor(layer, TensorRole::kDecayBias).values;
    for (size_t i = 0; i < steps.size(); ++i) {
      const double x = steps[i] + static_cast<double>(biases[i]);
      steps[i] = std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
    }
    return steps;
  }

  // Multiplies a head's state by what its decay leaves.
  double* decayed_state(uint32_t layer, size_t head, double step) {
    const LayerKind& k = c_.kind_of(layer);
    const size_t size = size_t{k.key_dim} * k.value_dim;
    states_[layer].resize(k.n_value_heads * size);
    double* const state = states_[layer].data() + head * size;
    const auto decay = static_cast<double>(tensor(layer, TensorRole::kDecay).values[head]);
    for (size_t i = 0; i < size; ++i) state[i] *= std::exp(decay * step);
    return state;
  }

  // state' x
  static Vector recalled(const LayerKind& k, const double* state, const double* x) {
    Vector y(k.value_dim);
    for (size_t i = 0; i < k.key_dim; ++i) {
      for (size_t j = 0; j < y.size(); ++j) y[j] += x[i] * state[i * y.size() + j];
    }
    return y;
  }

  // state += key value'
  static void remember(const LayerKind& k, const double* key, const Vector& value, double* state) {
    for (size_t i = 0; i < k.key_dim; ++i) {
      for (size_t j = 0; j < value.size(); ++j) state[i * value.size() + j] += key[i] * value[j];
    }
  }

  static void make_unit(const LayerKind& k, Vector* heads) {
    for (size_t at = 0; at < heads->size(); at += k.key_dim) {
      auto sum = static_cast<double>(k.unit_epsilon);
      for (size_t i = at; i < at + k.key_dim; ++i) sum += (*heads)[i] * (*heads)[i];
      for (size_t i = at; i < at + k.key_dim; ++i) (*heads)[i] /= std::sqrt(sum);
    }
  }

  [[nodiscard]] Vector delta_rule(uint32_t layer, const Vector& n) {
    const LayerKind& k = c_.kind_of(layer);
    Heads h = convolved_heads(layer, n);
    make_unit(k, &h.q);
    make_unit(k, &h.k);
    for (double& x : h.q) x /= std::sqrt(static_cast<double>(k.key_dim));
    const Vector steps = steps_of(layer, n);
    const Vector betas = product(layer, TensorRole::kBetaIn, n);
    Vector y;
    for (size_t head = 0; head < k.n_value_heads; ++head) {
      double* const state = decayed_state(layer, head, steps[head]);
      const size_t of_keys = head / (k.n_value_heads / k.n_key_heads) * k.key_dim;
      Vector missing = recalled(k, state, &h.k[of_keys]);
      for (size_t j = 0; j < missing.size(); ++j) {
        missing[j] = sigmoid(betas[head]) * (h.v[head * k.value_dim + j] - missing[j]);
      }
      remember(k, &h.k[of_keys], missing, state);
      Vector out = recalled(k, state, &h.q[of_keys]);
      rms(tensor(layer, TensorRole::kMixerInnerNorm), k.inner_epsilon, out.data(), out.size());
      y.insert(y.end(), out.begin(), out.end());
    }
    const Vector gate = product(layer, TensorRole::kMixerGate, n);
    for (size_t i = 0; i < y.size(); ++i) y[i] *= gate[i] * sigmoid(gate[i]);
    return product(layer, TensorRole::kO, y);
  }

  [[nodiscard]] Vector state_space(uint32_t layer, const Vector& n) {
    const LayerKind& k = c_.kind_of(layer);
    const Heads h = convolved_heads(layer, n);
    const Vector steps = steps_of(layer, n);
    Vector y;
    for (size_t head = 0; head < k.n_value_heads; ++head) {
      double* const state = decayed_state(layer, head, steps[head]);
      const size_t of_keys = head / (k.n_value_heads / k.n_key_heads) * k.key_dim;
      const double* const v = &h.v[head * k.value_dim];
      Vector added(v, v + k.value_dim);
      for (double& x : added) x *= steps[head];
      remember(k, &h.k[of_keys], added, state);
      const Vector out = recalled(k, state, &h.q[of_keys]);
      const auto skip = static_cast<double>(tensor(layer, TensorRole::kSkip).values[head]);
      for (size_t j = 0; j < out.size(); ++j) y.push_back(out[j] + skip * v[j]);
    }
    const Vector gate = product(layer, TensorRole::kMixerGate, n);
    for (size_t i = 0; i < y.size(); ++i) y[i] *= gate[i] * sigmoid(gate[i]);
    // Of each group the weights that lie as the group does.
    NaiveTensor norm = tensor(layer, TensorRole::kMixerInnerNorm);
    const size_t width = has_flag(k, flag::kGroupedNorm) ? y.size() / k.n_key_heads : y.size();
    for (size_t at = 0; at < y.size(); at += width) {
      rms(norm, k.inner_epsilon, y.data() + at, width);
      norm.values.erase(norm.values.begin(),
                        norm.values.begin() + static_cast<std::ptrdiff_t>(width));
    }
    return product(layer, TensorRole::kO, y);
  }

  [[nodiscard]] Vector attention(uint32_t layer, const Vector& n) {
    const LayerKind& k = c_.kind_of(layer);
    if (k.shared_with == format::kNoKind) keep_keys_and_values(layer, n);
    Vector q = product(layer, TensorRole::kQ, n);
    normalize_heads(layer, TensorRole::kQNorm, k.key_dim, &q);
    clip(k, &q);
    turn(k, k.key_dim, &q);
    grow(k, &q);
    const std::vector<Vector>& keys = keys_[owner(layer)];
    const std::vector<Vector>& values = values_[owner(layer)];
    const NaiveTensor* const sinks = find(layer, TensorRole::kSinks);
    const size_t end = position_ + 1;
    const size_t begin = first_seen(k);
    Vector y(size_t{k.n_query_heads} * k.value_dim);
    for (size_t head = 0; head < k.n_query_heads; ++head) {
      const size_t of_keys = head / (k.n_query_heads / k.n_key_heads);
      Vector scores(end);
      for (size_t j = begin; j < end; ++j) {
        for (size_t d = 0; d < k.key_dim; ++d) {
          scores[j] += q[head * k.key_dim + d] * keys[j][of_keys * k.key_dim + d];
        }
        scores[j] = capped(scores[j] * static_cast<double>(k.score_multiplier), k.score_cap);
      }
      softmax(sinks != nullptr ? &sinks->values[head] : nullptr, begin, &scores);
      for (size_t j = begin; j < end; ++j) {
        for (size_t d = 0; d < k.value_dim; ++d) {
          y[head * k.value_dim + d] += scores[j] * values[j][of_keys * k.value_dim + d];
        }
      }
    }
    if (has_flag(k, flag::kOutputGate)) {
      const Vector gate = product(layer, TensorRole::kMixerGate, n);
      for (size_t i = 0; i < y.size(); ++i) y[i] *= sigmoid(gate[i]);
    }
    if (const NaiveTensor* norm = find(layer, TensorRole::kMixerInnerNorm)) {
      rms(*norm, k.inner_epsilon, y.data(), y.size());
    }
    return product(layer, TensorRole::kO, y);
  }

  const NaiveTensors& tensors_;
  const Config& c_;
  const format::ModelScalars& m_;
  uint32_t context_;
  size_t position_ = 0;
  std::set<std::pair<uint32_t, TensorRole>> used_;
  // [layer][position]; of latent attention shared keys, of a convolution what it convolves
  std::vector<std::vector<Vector>> keys_;
  std::vector<std::vector<Vector>> values_;  // [layer][position]; the same, compressed rows
  std::vector<Vector> states_;               // [layer], of each value head [key_dim][value_dim]
};

}  // namespace

std::vector<double> naive_logits(std::span<const uint8_t> file, const Config& config,
                                 uint32_t context, std::span<const uint32_t> tokens) {
  const NaiveTensors tensors(file);
  NaiveDecoder decoder(tensors, config, context);
  std::vector<double> all;
  for (const uint32_t token : tokens) {
    const Vector logits = decoder.logits(decoder.next(token));
    all.insert(all.end(), logits.begin(), logits.end());
  }
  return all;
}

std::vector<double> naive_logits(std::span<const uint8_t> file, uint32_t context,
                                 std::span<const uint32_t> tokens) {
  ConfigParts config = NaiveTensors(file).config();
  return naive_logits(file, config.view(), context, tokens);
}

std::vector<double> naive_hidden(std::span<const uint8_t> file, uint32_t context,
                                 std::span<const uint32_t> tokens) {
  const NaiveTensors tensors(file);
  ConfigParts config = tensors.config();
  const Config view = config.view();
  NaiveDecoder decoder(tensors, view, context);
  std::vector<double> all;
  for (const uint32_t token : tokens) {
    const Vector hidden = decoder.next(token);
    all.insert(all.end(), hidden.begin(), hidden.end());
  }
  return all;
}

}  // namespace cria::test
