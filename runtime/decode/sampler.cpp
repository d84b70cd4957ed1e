#include "runtime/decode/sampler.h"

#include <algorithm>
#include <cmath>

#include "runtime/base/features.h"
#include "runtime/base/scalar_math.h"

namespace cria {
namespace {

constexpr size_t kFirstSorted = 256;  // candidates sorted at first; most draws need no more
constexpr size_t kSortedGrowth = 8;

// An object, not a function: sorting calls it without a pointer.
constexpr auto is_before = [](const Candidate& a, const Candidate& b) {
  return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
};

bool has_penalties(const cria_sampling& s) {
  const bool repeats = s.repeat_penalty != 0.0f && s.repeat_penalty != 1.0f;
  return repeats || s.frequency_penalty != 0.0f || s.presence_penalty != 0.0f;
}

// Biases, then penalties: tokens of the newest context are weakened, each once for all its
// occurrences. place(token) is where the token's logit is changed.
template <typename Place>
void change(std::span<const uint32_t> recent, const cria_sampling& sampling, const Place& place) {
  for (size_t i = 0; i < sampling.n_biases; ++i) {
    float& logit = place(sampling.biases[i].token);
    logit = comparable(logit + sampling.biases[i].bias);
  }
  if (!has_penalties(sampling)) return;
  const float penalty = sampling.repeat_penalty == 0.0f ? 1.0f : sampling.repeat_penalty;
  for (size_t i = 0; i < recent.size(); ++i) {
    const auto here = recent.begin() + static_cast<ptrdiff_t>(i);
    if (std::find(recent.begin(), here, *here) != here) continue;
    const auto n_times = static_cast<float>(std::count(here, recent.end(), *here));
    float& logit = place(*here);
    logit = logit > 0.0f ? logit / penalty : logit * penalty;
    logit -= n_times * sampling.frequency_penalty + sampling.presence_penalty;
  }
}

void fill_candidates(std::span<const float> logits, std::span<const uint32_t> recent,
                     const cria_sampling& sampling, std::span<Candidate> candidates) {
  for (size_t i = 0; i < logits.size(); ++i) {
    candidates[i] = {comparable(logits[i]), static_cast<uint32_t>(i)};
  }
  change(recent, sampling,
         [candidates](uint32_t token) -> float& { return candidates[token].logit; });
}

// The n likeliest and some more, in any order, or none where that takes no less than all of them:
// those whose logits are changed, and the likeliest of the others.
std::span<Candidate> few_candidates(std::span<const float> logits, std::span<const uint32_t> recent,
                                    const cria_sampling& sampling, size_t n,
                                    std::span<Candidate> candidates) {
  constexpr size_t kMostChanged = 256;  // each is looked for among the others
  const size_t most = sampling.n_biases + (has_penalties(sampling) ? recent.size() : 0);
  if (most > std::min(kMostChanged, candidates.size())) return {};
  if (n > logits.size()) return {};  // a sum with it could be too large for size_t
  size_t n_changed = 0;
  const auto changed = [&](uint32_t token) {
    return std::find_if(candidates.begin(), candidates.begin() + static_cast<ptrdiff_t>(n_changed),
                        [token](const Candidate& c) { return c.token == token; }) -
           candidates.begin();
  };
  change(recent, sampling, [&](uint32_t token) -> float& {
    const auto at = static_cast<size_t>(changed(token));
    if (at == n_changed) candidates[n_changed++] = {comparable(logits[token]), token};
    return candidates[at].logit;
  });
  const std::span<Candidate> found =
      likeliest(logits, n + n_changed, candidates.subspan(n_changed));
  if (found.empty()) return {};
  const auto end = std::remove_if(found.begin(), found.end(), [&](const Candidate& c) {
    return static_cast<size_t>(changed(c.token)) != n_changed;
  });
  return candidates.first(n_changed + static_cast<size_t>(end - found.begin()));
}

const Candidate& largest(std::span<const Candidate> candidates) {
  const Candidate* best = &candidates[0];
  for (const Candidate& c : candidates) {
    if (is_before(c, *best)) best = &c;
  }
  return *best;
}

// Sorts the first n candidates into place; the rest keep any order. A heap is the faster way to a
// few, as most of the others are below all of it.
void sort_first(std::span<Candidate> candidates, size_t n) {
  const auto end = candidates.begin() + static_cast<ptrdiff_t>(n);
  if (!kHasLargeVocabularies || n <= kFirstSorted) {
    std::partial_sort(candidates.begin(), end, candidates.end(), is_before);
    return;
  }
  std::nth_element(candidates.begin(), end, candidates.end(), is_before);
  std::sort(candidates.begin(), end, is_before);
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
  const bool is_greedy = !kHasSampling || sampling.temperature == 0.0f;
  const size_t n_wanted = is_greedy ? 1 : sampling.top_k;  // 0: all
  std::span<Candidate> kept;
  if (kHasLargeVocabularies && n_wanted != 0) {
    kept = few_candidates(logits, recent, sampling, n_wanted, candidates);
  }
  if (kept.empty()) {
    fill_candidates(logits, recent, sampling, candidates);
    kept = candidates;
  }
  const auto [max, best] = largest(kept);
  if (n_wanted == 1 || !std::isfinite(max)) return best;

  if (n_wanted != 0 && n_wanted < logits.size()) {
    sort_first(kept, n_wanted);
    kept = kept.first(n_wanted);
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
