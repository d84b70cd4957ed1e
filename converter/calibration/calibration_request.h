// What the command line asks of a calibration.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>

namespace cria::converter {

struct CalibrationRequest {
  bool feedback;                              // GPTQ's rounding; else only scales are searched
  std::optional<std::filesystem::path> file;  // of token ids; none: the model writes its own text
  std::optional<uint32_t> n_tokens;           // to be used at most; none: by the model's size
};

inline constexpr uint32_t kCalibrationTokens = 32768;
// Of a model of more weights.
inline constexpr uint64_t kManyWeights = 500'000'000;
inline constexpr uint32_t kCalibrationTokensOfMany = 16384;
inline constexpr uint32_t kLeastCalibrationTokens = 256;
inline constexpr uint32_t kMostCalibrationTokens = 1 << 22;
inline constexpr uint64_t kCalibrationSeed = 1;
inline constexpr float kCalibrationTemperature = 0.8f;
// Tokens of a sequence at most, and sequences at least.
inline constexpr size_t kCalibrationLength = 512;
inline constexpr size_t kCalibrationSequences = 8;

}  // namespace cria::converter
