// The one list of blocks that this build computes; quant/blocks/block_formats.h has what files hold
// of them. A block owns no memory: state, scratch and tensors lie in what was planned.
#pragma once

#include "runtime/blocks/layer_step.h"

namespace cria {

// Turns a row's key back by some positions.
struct TurnBack {
  const Kernels& kernels;
  const format::LayerKind& kind;
  KvFormat kv_format;
  const float* cosines;  // of the kind's RoPE table
  const float* sines;
  size_t n_pairs;
  float* scratch;  // of a key
};

struct Mixer {
  // What a layer adds for each row: in [n][d_model], out [n][d_model], overwritten. May write to
  // Step::normed, where in may be, once its input matrices have run.
  Status (*forward)(const Step&, const Layer&, const float* in, float* out);
  // rows: one row of each part of a cache. Null: rows do not depend on their position.
  void (*turn_back)(const TurnBack&, uint8_t* const* rows);
};

struct FeedForward {
  Status (*forward)(const Step&, const Layer&, const float* in, float* out);
};

// By its number in the file; null where there is none or this build lacks it.
[[nodiscard]] const Mixer* find_mixer(uint8_t mixer);
// Finds the blocks of every layer.
void find_blocks(const Weights& weights);

}  // namespace cria
