// Where the model's bytes are. One of linked_model.cpp and loaded_model.cpp is in an image.
#pragma once

#include <cstdint>
#include <span>

#include <cria.h>

namespace cria::cortex_m {

// 64-byte aligned, read in place as long as the program runs.
[[nodiscard]] std::span<const uint8_t> model_bytes();

// The bytes as a source: addresses are all there is to mapping. bytes must outlive the source.
[[nodiscard]] cria_source flash_source(const std::span<const uint8_t>* bytes);

}  // namespace cria::cortex_m
