#include "runtime/decode/sampler.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/features.h"
#include "runtime/base/scalar_math.h"

namespace cria {
namespace {

constexpr size_t kFirstSorted = 256;  // candidates sorted at first; most draws need no more
constexpr size_t kSortedGrowth = 8;

bool is_before(const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
}

// Not a number sorts as the smallest there is: sorting needs an order.
float comparable(float logit) { return logit == logit ? logit : -HUGE_VALF; }

void fill_candidates(std::span<const float> logits, const cria_sampling& sampling,
                     std::span<Candidate> candidates) {
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates[i] = {comparable(logits[i]), static_cast<uint32_t>(i)};
  }
  for (size_t i = 0; i < sampling.n_biases; ++i) {
    const cria_logit_bias& bias = sampling.biases[i];
    candidates[bias.token].logit = comparable(candidates[bias.token].logit + bias.bias);
  }
}

// Weakens the tokens of the newest context, each once for all its occurrences.
void penalize(std::span<const uint32_t> recent, const cria_sampling& sampling,
              std::span<Candidate> candidates) {
  const float penalty = sampling.repeat_penalty == 0.0f ? 1.0f : sampling.repeat_penalty;
  if (penalty == 1.0f && sampling.frequency_penalty == 0.0f && sampling.presence_penalty == 0.0f) {
    return;
  }
  for (size_t i = 0; i < recent.size(); ++i) {
    const auto here = recent.begin() + static_cast<ptrdiff_t>(i);
    if (std::find(recent.begin(), here, *here) != here) continue;
    const auto n_times = static_cast<float>(std::count(here, recent.end(), *here));
    float& logit = candidates[*here].logit;
    logit = logit > 0.0f ? logit / penalty : logit * penalty;
    logit -= n_times * sampling.frequency_penalty + sampling.presence_penalty;
  }
}

uint32_t largest(std::span<const Candidate> candidates) {
  const Candidate* best = &candidates[0];
  for (const Candidate& c : candidates) {
    if (c.logit > best->logit) best = &c;  // ids ascend, so the lowest wins a tie
  }
  return best->token;
}

// Sorts the first n candidates into place; the rest keep any order.
void sort_first(std::span<Candidate> candidates, size_t n) {
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(n),
                    candidates.end(), is_before);
}

// Replaces logits by exp((logit - max) / temperature).
void exponentiate(std::span<Candidate> candidates, float max, float temperature) {
  for (Candidate& c : candidates) c.logit = exp_f32((c.logit - max) / temperature);
}

// Sum in double, in the order of the span.
double sum_of(std::span<const Candidate> candidates) {
  double sum = 0;
  for (const Candidate& c : candidates) sum += static_cast<double>(c.logit);
  return sum;
}

// How many of the largest candidates reach the share top_p of total together; sorts as many.
size_t nucleus(std::span<Candidate> candidates, double wanted) {
  size_t sorted = 0;
  double sum = 0;
  for (size_t n = 0; n < candidates.size(); ++n) {
    if (n == sorted) {
      const size_t more = sorted == 0 ? kFirstSorted : sorted * (kSortedGrowth - 1);
      const size_t grown = std::min(candidates.size() - sorted, more);
      sort_first(candidates.subspan(sorted), grown);
      sorted += grown;
    }
    sum += static_cast<double>(candidates[n].logit);
    if (sum >= wanted) return n + 1;
  }
  return candidates.size();
}

uint32_t draw(std::span<const Candidate> candidates, Pcg32* random) {
  const double target = static_cast<double>(random->next_unit()) * sum_of(candidates);
  double sum = 0;
  for (const Candidate& c : candidates) {
    sum += static_cast<double>(c.logit);
    if (target < sum) return c.token;
  }
  // Only when every weight is zero or not a number.
  return candidates[0].token;
}

}  // namespace

bool is_valid_sampling(const cria_sampling& s, uint32_t vocab_size) {
  const auto in = [](float x, float low, float high) { return x >= low && x <= high; };
  constexpr float kMost = 1e6f;
  if (s.biases == nullptr && s.n_biases != 0) return false;
  for (size_t i = 0; i < s.n_biases; ++i) {
    if (s.biases[i].token >= vocab_size || std::isnan(s.biases[i].bias)) return false;
  }
  return in(s.temperature, 0.0f, kMost) && in(s.top_p, 0.0f, 1.0f) && in(s.min_p, 0.0f, 1.0f) &&
         in(s.repeat_penalty, 0.0f, kMost) && in(s.frequency_penalty, -kMost, kMost) &&
         in(s.presence_penalty, -kMost, kMost);
}

uint32_t sample(std::span<const float> logits, std::span<const uint32_t> recent,
                const cria_sampling& sampling, Pcg32* random, std::span<Candidate> candidates) {
  fill_candidates(logits, sampling, candidates);
  penalize(recent, sampling, candidates);
  const uint32_t best = largest(candidates);
  if (!kHasSampling || sampling.temperature == 0.0f || sampling.top_k == 1) return best;
  const float max = candidates[best].logit;
  if (!std::isfinite(max)) return best;

  std::span<Candidate> kept = candidates;
  if (sampling.top_k != 0 && sampling.top_k < kept.size()) {
    sort_first(kept, sampling.top_k);
    kept = kept.first(sampling.top_k);
  }
  exponentiate(kept, max, sampling.temperature);
  if (sampling.top_p > 0.0f && sampling.top_p < 1.0f) {
    kept = kept.first(nucleus(kept, static_cast<double>(sampling.top_p) * sum_of(kept)));
  }
  if (sampling.min_p > 0.0f) {
    // The best candidate's numerator is 1.
    const auto end = std::partition(kept.begin(), kept.end(),
                                    [&](const Candidate& c) { return c.logit >= sampling.min_p; });
    kept = kept.first(static_cast<size_t>(end - kept.begin()));
    std::sort(kept.begin(), kept.end(), is_before);
  }
  return draw(kept, random);
}

}  // namespace cria
