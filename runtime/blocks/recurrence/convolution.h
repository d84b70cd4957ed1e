// Convolutions over a session's positions, each channel by itself: short convolutions are little
// more, the delta rule and state spaces have one in front.
#pragma once

#include "runtime/blocks/recurrence/runs.h"

namespace cria::recurrences {

struct Convolution {
  const float* taps;  // [n_taps][n_channels], the newest position's last
  const float* bias;  // [n_channels] or null
  size_t n_taps;
  size_t n_channels;
  size_t part;   // of a layer's state: [n_taps - 1][n_channels], the oldest position first
  bool is_silu;  // silu of the result
};

[[nodiscard]] Convolution convolution_of(const Layer& layer, size_t n_channels, size_t part,
                                         bool is_silu);

// Columns of an array of all rows that are channels from one on.
struct Columns {
  float* x;  // of row 0
  size_t stride;
  size_t first_channel;
  size_t n;
};

// Puts what is convolved in the columns' place, and keeps what the next position reads. Sums go
// from the oldest position to the newest, then the bias is added.
void convolve(const Kernels& kernels, const Run& run, const Convolution& w, const Columns& columns);

}  // namespace cria::recurrences
