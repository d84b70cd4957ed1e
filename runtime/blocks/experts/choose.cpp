#include "runtime/blocks/experts/choose.h"

#if CRIA_WITH_EXPERTS

#include <cstddef>
#include <cstring>

#include "quant/model/model_config.h"
#include "runtime/base/scalar_math.h"

namespace cria::experts {
namespace {

using format::LayerKind;

// What has been taken, a bit each.
class Taken {
 public:
  [[nodiscard]] bool has(size_t i) const { return (bits_[i / 32] >> i % 32 & 1) != 0; }
  void add(size_t i) { bits_[i / 32] |= uint32_t{1} << i % 32; }

 private:
  uint32_t bits_[format::kMaxExperts / 32] = {};
};

// Whether a value goes before another one that has a lower index.
bool goes_before(float value, float other) {
  return value > other || (other != other && value == value);
}

// The best of n values that is not taken, n for none.
template <typename Value>
size_t best_of(size_t n, const Taken& taken, const Value& value) {
  size_t best = n;
  for (size_t i = 0; i < n; ++i) {
    if (!taken.has(i) && (best == n || goes_before(value(i), value(best)))) best = i;
  }
  return best;
}

// The best of a group, or the sum of its best two.
float rank_of_group(const LayerKind& k, const float* group, size_t n) {
  Taken taken;
  const auto value = [&](size_t i) { return group[i]; };
  const size_t first = best_of(n, taken, value);
  if (k.group_rank == 1) return group[first];
  taken.add(first);
  return group[first] + group[best_of(n, taken, value)];
}

// Takes the experts of all groups but the best.
void take_other_groups(const LayerKind& k, const float* ranked, Taken* taken) {
  const size_t in_group = k.n_experts / k.n_groups;
  Taken groups;
  for (size_t i = 0; i < k.n_groups_chosen; ++i) {
    groups.add(best_of(k.n_groups, groups, [&](size_t group) {
      return rank_of_group(k, ranked + group * in_group, in_group);
    }));
  }
  for (size_t i = 0; i < k.n_experts; ++i) {
    if (!groups.has(i / in_group)) taken->add(i);
  }
}

float largest_of(const float* x, size_t n) {
  float largest = x[0];
  for (size_t i = 1; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

// Makes the router's values scores.
void score(const Kernels& kernels, const LayerKind& k, float* x) {
  if (k.router_score == static_cast<uint8_t>(format::RouterScore::kSigmoid)) {
    for (size_t i = 0; i < k.n_experts; ++i) x[i] = 1.0f / (1.0f + exp_f32(-x[i]));
    return;
  }
  const float total = kernels.exp_sum(x, k.n_experts, largest_of(x, k.n_experts));
  for (size_t i = 0; i < k.n_experts; ++i) x[i] /= total;
}

void weigh(const Router& router, const float* scores, const uint32_t* chosen, float* weights) {
  const LayerKind& k = router.kind;
  float divisor = 1.0f;
  if (has_flag(k, format::flag::kNormalizedChoice)) {
    divisor = 0.0f;
    for (size_t i = 0; i < k.n_chosen; ++i) divisor += scores[chosen[i]];
    divisor += k.router_epsilon;
  }
  for (size_t i = 0; i < k.n_chosen; ++i) {
    weights[i] = scores[chosen[i]] / divisor * k.router_scale;
    if (router.factors != nullptr) weights[i] *= router.factors[chosen[i]];
  }
}

}  // namespace

void choose(const Kernels& kernels, const Router& router, float* scores, float* ranked,
            uint32_t* chosen, float* weights) {
  const LayerKind& k = router.kind;
  // Values whose softmax is large are large themselves, and differ where it is rounded to the same.
  const bool by_values = k.router_score == static_cast<uint8_t>(format::RouterScore::kSoftmax) &&
                         router.choice_bias == nullptr;
  const size_t n_bytes = k.n_experts * sizeof(float);
  if (by_values) std::memcpy(ranked, scores, n_bytes);
  score(kernels, k, scores);
  if (!by_values) std::memcpy(ranked, scores, n_bytes);
  if (router.choice_bias != nullptr) {
    for (size_t i = 0; i < k.n_experts; ++i) ranked[i] += router.choice_bias[i];
  }
  Taken taken;
  if (k.n_groups != 0) take_other_groups(k, ranked, &taken);
  for (size_t i = 0; i < k.n_chosen; ++i) {
    const size_t best = best_of(k.n_experts, taken, [&](size_t expert) { return ranked[expert]; });
    taken.add(best);
    chosen[i] = static_cast<uint32_t>(best);
  }
  weigh(router, scores, chosen, weights);
}

}  // namespace cria::experts

#endif  // CRIA_WITH_EXPERTS
