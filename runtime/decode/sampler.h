// Draws a token from logits. Steps in this order, each optional:
//   biases, penalties, greedy | (top-k, temperature and softmax, top-p, min-p, draw)
// Sorting is by logit, larger first, then by id, lower first; so the result is the same everywhere.
#pragma once

#include <cstdint>
#include <span>

#include <cria.h>
#include "runtime/base/random.h"
#include "runtime/decode/likeliest.h"

namespace cria {

// False when a value is out of range (cria.h), not a number or of no token.
[[nodiscard]] bool is_valid_sampling(const cria_sampling& sampling, uint32_t vocab_size);

// recent: newest tokens of the context. candidates [logits.size()] is overwritten.
[[nodiscard]] uint32_t sample(std::span<const float> logits, std::span<const uint32_t> recent,
                              const cria_sampling& sampling, Pcg32* random,
                              std::span<Candidate> candidates);

}  // namespace cria
