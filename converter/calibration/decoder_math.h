// The decoder's functions of rows of floats, from additions, multiplications, divisions and square
// roots in a stated order, so that every machine gives the same bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cria::converter {

// y = x / sqrt(mean(x^2) + epsilon) * weight; y may be x. Sixteen sums, element i in that of
// i % 16, then halves onto each other.
void rms_norm(const float* x, const float* weight, size_t n, float epsilon, float* y);

// gate = gate / (1 + exp(-gate)) * up.
void silu_multiply(float* gate, const float* up, size_t n);

// x = exp(x - max) / sum; sums as rms_norm's.
void softmax(float* x, size_t n);

// The KL divergence of softmax(other) from softmax(exact), which is given as p; in nats. Keeps its
// precision where it is small.
[[nodiscard]] double divergence(const float* p, const float* exact, const float* other, size_t n);

// to += factor * from.
void add_scaled(const float* from, float factor, size_t n, float* to);

// Cosines and sines of the angles position * frequency, times factor: [n_positions][n] each.
struct RotationTable {
  RotationTable(std::span<const float> frequencies, float factor, size_t n_positions);
  size_t n_pairs;
  std::vector<float> cosines;
  std::vector<float> sines;
};

// Turns the first 2 * n_pairs elements of a head: element i with i + n_pairs.
void rotate_head(const RotationTable& table, size_t position, float* head);

}  // namespace cria::converter
