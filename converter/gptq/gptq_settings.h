// What a checkpoint's config says about weights that are quantized already.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "converter/json_input.h"

namespace cria::converter {

// Symmetric codes of four bits, as GPTQ and AutoRound write them.
struct GptqSettings {
  uint32_t group_size;                  // 32, 64 or 128 inputs
  std::optional<uint32_t> stored_zero;  // 7 or 8, what stands for code 0; nothing: either
};

// config is quantization_config of config.json, which names its method, or quantize_config.json,
// which only GPTQ has. Throws ProgramError that names what is not supported and what to do.
enum class QuantizationFile { kConfig, kOwn };
[[nodiscard]] GptqSettings read_gptq_settings(const Json& config, QuantizationFile file,
                                              const std::string& where);

}  // namespace cria::converter
