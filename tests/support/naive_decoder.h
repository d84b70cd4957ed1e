// The decoder again, in double and without a thought for speed: what the runtime's is judged by.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/decode/model.h"

namespace cria::test {

// Logits after every token, [n][vocab_size], of a session with this context, by the weights of
// model as config says: model's own, or one that uses fewer of them. model keeps its matrices in
// the file's layout.
[[nodiscard]] std::vector<double> naive_logits(const cria_model& model,
                                               const format::ModelConfig& config, uint32_t context,
                                               std::span<const uint32_t> tokens);

}  // namespace cria::test
