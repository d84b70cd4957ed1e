// Draws a token from logits. Steps in this order, each optional:
//   repeat penalty, greedy | (top-k, temperature and softmax, min-p, top-p, draw)
// Sorting is by logit, larger first, then by id, lower first; so the result is the same everywhere.
#pragma once

#include <cstdint>
#include <span>

#include <cria.h>
#include "runtime/base/random.h"

namespace cria {

inline constexpr size_t kRepeatWindow = 64;  // newest tokens the repeat penalty looks at

struct Candidate {
  float logit;  // then the probability's numerator
  uint32_t token;
};
static_assert(sizeof(Candidate) == 8);

// False when a value is out of range: temperature < 0, top_p or min_p outside [0, 1],
// repeat_penalty <= 0 other than 0, or any not finite.
[[nodiscard]] bool is_valid_sampling(const cria_sampling& sampling);

// recent: newest tokens of the context. candidates [logits.size()] is overwritten.
[[nodiscard]] uint32_t sample(std::span<const float> logits, std::span<const uint32_t> recent,
                              const cria_sampling& sampling, Pcg32* random,
                              std::span<Candidate> candidates);

}  // namespace cria
