#include "platforms/hosted/engine/token_logprobs.h"

#include <algorithm>

#include "platforms/hosted/eval/distribution.h"

namespace cria::hosted {

TokenLogprobs::TokenLogprobs(std::span<const float> logits)
    : logits_(logits), log_sum_(log_sum_exp(logits)) {}

float TokenLogprobs::of(uint32_t token) const {
  return static_cast<float>(static_cast<double>(logits_[token]) - log_sum_);
}

std::vector<TokenLogprob> TokenLogprobs::top(uint32_t n) const {
  const auto is_before = [](const TokenLogprob& a, const TokenLogprob& b) {
    return a.logprob > b.logprob || (a.logprob == b.logprob && a.token < b.token);
  };
  const size_t n_kept = std::min<size_t>(n, logits_.size());
  if (n_kept == 0) return {};
  // A heap of the best so far, its worst in front; logits, which differ where logarithms may not.
  std::vector<TokenLogprob> kept;
  kept.reserve(n_kept);
  for (uint32_t token = 0; token < logits_.size(); ++token) {
    const TokenLogprob candidate = {token, logits_[token]};
    if (kept.size() == n_kept) {
      if (!is_before(candidate, kept.front())) continue;
      std::pop_heap(kept.begin(), kept.end(), is_before);
      kept.pop_back();
    }
    kept.push_back(candidate);
    std::push_heap(kept.begin(), kept.end(), is_before);
  }
  std::sort_heap(kept.begin(), kept.end(), is_before);
  for (TokenLogprob& candidate : kept) candidate.logprob = of(candidate.token);
  return kept;
}

}  // namespace cria::hosted
