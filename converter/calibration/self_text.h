// Text that a model writes itself, to be calibrated with where no other is given: what it writes is
// what it was trained on, as far as it knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "converter/calibration/planned_weights.h"
#include "converter/calibration/token_sequences.h"

namespace cria::converter {

struct SelfTextRequest {
  size_t n_sequences;
  size_t n_tokens;  // of each
  float temperature;
  uint64_t seed;
};

// Each sequence begins with the BOS token, or where the model has none with a random token; after
// an end token comes such a beginning again. Weights are rounded to bf16 and the KV cache to int8,
// which is what they take in memory: all layers at once. The same arguments give the same tokens on
// every machine. Calls progress(tokens done, all) now and then. Throws ProgramError.
[[nodiscard]] TokenSequences write_self_text(const Config& config, const PlannedWeights& weights,
                                             const SelfTextRequest& request,
                                             hosted::ThreadPool* pool,
                                             const std::function<void(size_t, size_t)>& progress);

// Bytes that it takes.
[[nodiscard]] uint64_t self_text_bytes(const Config& config, const SelfTextRequest& request,
                                       size_t n_threads);

}  // namespace cria::converter
