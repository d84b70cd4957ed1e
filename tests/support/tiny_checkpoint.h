// A Hugging Face folder small enough to flip every bit of its model file: two layers, 300 tokens of
// byte-level BPE with a Llama 3 chat template, weights from a fixed generator.
#pragma once

#include <cstdint>
#include <filesystem>

namespace cria::test {

void write_tiny_checkpoint(const std::filesystem::path& folder);

// The same, of an LFM2 of five layers: short convolutions and attention in turn.
void write_tiny_lfm2(const std::filesystem::path& folder, uint32_t context);

}  // namespace cria::test
