// Shares of logits, and how far they differ, from additions, multiplications and divisions in a
// stated order, so that every machine gives the same bits.
#pragma once

#include <cstddef>

namespace cria::converter {

// x = exp(x - max) / sum. Sixteen sums, element i in that of i % 16, then halves onto each other.
void softmax(float* x, size_t n);

// The KL divergence of softmax(other) from softmax(exact), which is given as p; in nats. Keeps its
// precision where it is small.
[[nodiscard]] double divergence(const float* p, const float* exact, const float* other, size_t n);

}  // namespace cria::converter
