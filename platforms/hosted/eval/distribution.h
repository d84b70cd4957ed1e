// Measures of the distributions that logits describe. Logits are [vocab_size], finite.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cria::hosted {

// Natural logarithm of the sum of exp(logit): what is taken off a logit for the logarithm of its
// token's probability. Summed in double, in the order of the tokens.
double log_sum_exp(std::span<const float> logits);

// Natural logarithm of the probability of token.
double log_probability(std::span<const float> logits, uint32_t token);

// Sum over tokens of p * ln(p / q), where p is reference's distribution and q that of logits;
// both of the same size. >= 0 but for rounding.
double kl_divergence(std::span<const float> reference, std::span<const float> logits);

// Index of the largest logit; the lowest one of equals.
size_t likeliest(std::span<const float> logits);

}  // namespace cria::hosted
