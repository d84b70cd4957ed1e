// The tokens that a calibration asks for: those of a file, or text that the model writes itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "converter/calibration/calibration_wish.h"
#include "converter/calibration/float_decoder.h"
#include "converter/calibration/token_sequences.h"
#include "converter/progress.h"

namespace cria::converter {

// Tokens of a sequence at most, and sequences, for so many tokens in all.
[[nodiscard]] size_t sequence_length(const Config& config, uint32_t n_tokens);
[[nodiscard]] size_t sequence_count(const Config& config, uint32_t n_tokens);

// The matrices' weights of a layer, and of the model.
[[nodiscard]] uint64_t layer_weight_count(const Config& config);
[[nodiscard]] uint64_t weight_count(const Config& config);

// Bytes that it takes to have the model write them.
[[nodiscard]] uint64_t self_text_bytes(const Config& config, uint32_t n_tokens);

// Throws ProgramError where a matrix's weights are int4 already: they would be rounded anew. The
// line names the options that ask for it.
void refuse_int4_sources(const TensorPlan& plan, const std::string& options);

// decoder has positions for sequence_length. Says on the progress line how far it is. Throws
// ProgramError.
[[nodiscard]] TokenSequences calibration_text(const std::optional<std::filesystem::path>& file,
                                              uint32_t n_tokens, const FloatDecoder& decoder,
                                              const PlannedWeights& weights,
                                              hosted::ThreadPool* pool, Progress* progress);

}  // namespace cria::converter
