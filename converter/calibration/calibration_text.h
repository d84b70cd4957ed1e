// The tokens that a calibration asks for: those of a file, or text that the model writes itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "converter/calibration/calibration_request.h"
#include "converter/calibration/planned_weights.h"
#include "converter/calibration/self_text.h"
#include "converter/calibration/token_sequences.h"
#include "converter/progress.h"

namespace cria::converter {

// Tokens of a sequence at most, and sequences, for so many tokens in all.
[[nodiscard]] size_t sequence_length(const Config& config, uint32_t n_tokens);
[[nodiscard]] size_t sequence_count(const Config& config, uint32_t n_tokens);

// How the model writes them.
[[nodiscard]] SelfTextRequest self_text_request(const Config& config, uint32_t n_tokens);

// Throws ProgramError where a matrix's weights are int4 already: they would be rounded anew. The
// line names the options that ask for it.
void refuse_int4_sources(const TensorPlan& plan, const std::string& options);

// Says on the progress line how far it is. Throws ProgramError.
[[nodiscard]] TokenSequences calibration_text(const std::optional<std::filesystem::path>& file,
                                              uint32_t n_tokens, const Config& config,
                                              const PlannedWeights& weights,
                                              hosted::ThreadPool* pool, Progress* progress);

}  // namespace cria::converter
