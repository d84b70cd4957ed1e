#include "platforms/hosted/eval/distribution.h"

#include <algorithm>
#include <cmath>

namespace cria::hosted {
namespace {

double as_double(float value) { return static_cast<double>(value); }

}  // namespace

double log_sum_exp(std::span<const float> logits) {
  const double largest = as_double(*std::max_element(logits.begin(), logits.end()));
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(as_double(logit) - largest);
  return largest + std::log(sum);
}

double log_probability(std::span<const float> logits, uint32_t token) {
  return as_double(logits[token]) - log_sum_exp(logits);
}

double kl_divergence(std::span<const float> reference, std::span<const float> logits) {
  const double reference_log_sum = log_sum_exp(reference);
  const double log_sum = log_sum_exp(logits);
  double sum = 0.0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double log_p = as_double(reference[i]) - reference_log_sum;
    const double log_q = as_double(logits[i]) - log_sum;
    sum += std::exp(log_p) * (log_p - log_q);
  }
  return sum;
}

size_t likeliest(std::span<const float> logits) {
  return static_cast<size_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

}  // namespace cria::hosted
