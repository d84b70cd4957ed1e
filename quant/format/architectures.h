// The one list of architectures, for people: nothing computes differently by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "quant/format/format.h"

namespace cria {

// Names by format::Architecture, counted from 1.
inline constexpr const char* kArchitectureNames[] = {
    "llama",      "mistral",   "granite", "qwen2",      "qwen3",    "smollm3", "phi3",
    "granite4",   "gpt2",      "mixtral", "qwen2moe",   "qwen3moe", "olmoe",   "granitemoe",
    "deepseek2",  "deepseek3", "minicpm", "ministral3", "ernie4_5", "exaone4", "olmo2",
    "olmo3",      "bitnet",    "gemma2",  "gemma3",     "lfm2",     "lfm2moe", "qwen3_5",
    "qwen3_5moe", "qwen3next", "gemma4"};
static_assert(static_cast<size_t>(format::Architecture::kGemma4) == std::size(kArchitectureNames));

[[nodiscard]] constexpr bool is_architecture(uint32_t value) {
  return value >= 1 && value <= std::size(kArchitectureNames);
}

}  // namespace cria
