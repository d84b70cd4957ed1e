// Small valid configs of random kinds of layers, with awkward sizes.
#pragma once

#include <cstdint>
#include <vector>

#include "converter/config_parts.h"

namespace cria::test {

// What may be in such a config, so that it asks for no block that a test cannot run.
struct RandomKinds {
  std::vector<format::Mixer> mixers;
  std::vector<format::FeedForward> feed_forwards;
  uint32_t always;       // flags that each kind has, where they go with its blocks
  uint32_t flags;        // and those that it may have
  uint32_t model_flags;  // that the model may have
  // Layer norms, several activations, caps, clips, growth, values of another width than keys,
  // shared keys and values.
  bool has_variants;
  bool has_per_layer;  // embeddings
};

// All that the format has; and attention and dense as Llama and its near relatives have them, of
// several windows, RoPE tables, widths and epsilons.
[[nodiscard]] RandomKinds all_kinds();
[[nodiscard]] RandomKinds plain_kinds();

// The same for the same seed on every machine. Matrices have any formats.
[[nodiscard]] ConfigParts random_kinds(uint32_t seed, const RandomKinds& request);

}  // namespace cria::test
