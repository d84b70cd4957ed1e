// The tokens that a calibration runs on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

namespace cria::converter {

using TokenSequences = std::vector<std::vector<uint32_t>>;

[[nodiscard]] size_t token_count(const TokenSequences& sequences);

// Reads ids in decimal from a text file: a line is a sequence, ids are separated by spaces or
// commas. Lines are cut to length tokens; what is beyond n_tokens, and pieces of a single token,
// are left out. Throws ProgramError: a byte that belongs to no id, an id that the vocabulary does
// not have, fewer than kCalibrationSequences pieces, a file that cannot be read or is too large.
[[nodiscard]] TokenSequences read_token_file(const std::filesystem::path& path, uint32_t vocab_size,
                                             size_t length, size_t n_tokens);

}  // namespace cria::converter
