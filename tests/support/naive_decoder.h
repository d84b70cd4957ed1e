// The decoder again, in double and without a thought for speed: what the runtime's is judged by.
// It computes what docs/model_format.md says of a model and of each block.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "quant/model/model_config.h"

namespace cria::test {

// Logits after every token, [n][vocab_size], of a session with this context. file: a valid model,
// none of whose chunks is compressed. Throws for blocks that are not written here.
[[nodiscard]] std::vector<double> naive_logits(std::span<const uint8_t> file, uint32_t context,
                                               std::span<const uint32_t> tokens);
// The same by another config, which uses some of the file's tensors.
[[nodiscard]] std::vector<double> naive_logits(std::span<const uint8_t> file, const Config& config,
                                               uint32_t context, std::span<const uint32_t> tokens);

// What the output matrix reads of every token, [n][d_model]: rows after the last norm.
[[nodiscard]] std::vector<double> naive_hidden(std::span<const uint8_t> file, uint32_t context,
                                               std::span<const uint32_t> tokens);

}  // namespace cria::test
