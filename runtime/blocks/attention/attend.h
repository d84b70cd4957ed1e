// Grouped-query attention over KV caches: tiles of positions with an online softmax, so that
// scratch does not grow with the context.
#pragma once

#include "quant/blocks/attention_format.h"
#include "runtime/blocks/layer_step.h"

namespace cria::attention {

// A vector of each position, in parts of a cache: codes or floats, and the codes' scales.
struct CachedVectors {
  uint32_t width;
  uint8_t codes;
  uint8_t scales;
};

// Vectors of rows and heads, wherever they lie.
struct HeadVectors {
  float* first;
  size_t row_stride;
  size_t head_stride;
  [[nodiscard]] float* at(size_t row, size_t head) const {
    return first + row * row_stride + head * head_stride;
  }
};

// What attention attends with.
struct Attending {
  CachedVectors keys[kMostKeyParts];  // of width 0: there is no such part
  CachedVectors values;
  HeadVectors queries[kMostKeyParts];  // a part each; already rotated
  HeadVectors out;                     // may be queries[0]
  uint32_t queries_at_once;
  uint8_t* tiles;  // [n_threads][tile_bytes]
  uint64_t tile_bytes;
};

// Writes a position's vector to its row of a cache.
void store(const Kernels& kernels, const KvCache& kv, size_t row, const CachedVectors& to,
           const float* x);

// out = softmax(queries * keys * multiplier) * values, each row attending to itself and the
// positions before it in its own cache, within the window when there is one. A row's result does
// not depend on the rows and heads computed with it: tiles begin at multiples of kTile, and each
// query's sums go on in the order of positions.
void attend(const Step& s, const Layer& layer, const Attending& a);

}  // namespace cria::attention
