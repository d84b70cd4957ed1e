// The likeliest tokens of a vocabulary, without a candidate for each of its tokens.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cria {

struct Candidate {
  float logit;  // then the probability's numerator
  uint32_t token;
};
static_assert(sizeof(Candidate) == 8);

// Not a number sorts as the smallest there is: sorting needs an order.
[[nodiscard]] inline float comparable(float logit) { return logit == logit ? logit : -HUGE_VALF; }

// Writes to the front of room every candidate whose logit is not below the n-th largest (n >= 1),
// in any order, and returns them. Returns none where room is too small for that, or n too large a
// part of the logits to be worth it.
[[nodiscard]] std::span<Candidate> likeliest(std::span<const float> logits, size_t n,
                                             std::span<Candidate> room);

}  // namespace cria
