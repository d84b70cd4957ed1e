// Model configs that tests share.
#pragma once

#include <cstdint>
#include <vector>

#include "converter/config_parts.h"

namespace cria::test {

// A valid Llama of two layers: 64 wide, 4 heads over 2 key-value heads, 96 wide FFN, 50 tokens.
[[nodiscard]] ConfigParts small_config(format::NumberFormat weights, uint16_t group_size);

// A kind without mixer and feed-forward, which is not valid: no field is used.
[[nodiscard]] format::LayerKind blank_kind();
// The layers of small_config.
[[nodiscard]] format::LayerKind llama_kind();
// A valid kind of small_config's width for each mixer and feed-forward. Norms before both, biases
// and other flags nowhere, sizes that differ from each other where they may.
[[nodiscard]] format::LayerKind small_kind(format::Mixer mixer, format::FeedForward feed_forward);
// Lets a mixer that keeps a block of state count: what it computes is a product of three small
// numbers and more, and a norm of its output brings that to length 1.
void bring_out(format::LayerKind* kind);
// small_config with such layers.
[[nodiscard]] ConfigParts small_config(format::Mixer mixer, format::FeedForward feed_forward);

// Gives heads of every kind this size, all of whose pairs RoPE table 0 turns.
void set_head_dim(ConfigParts* config, uint16_t head_dim);

// Parts that are a config's.
[[nodiscard]] ConfigParts parts_of(const Config& config);
// A config's section; empty where it would be too large.
[[nodiscard]] std::vector<uint8_t> section_of(const Config& config);

}  // namespace cria::test
