// A GGUF file of weights that were trained as few bits.
#pragma once

#include <iterator>
#include <random>
#include <string>

#include "quant/numbers/float16.h"
#include "tests/unit/converter/gguf_writer.h"

namespace cria::test {

inline constexpr uint32_t kF32 = 0;
inline constexpr uint32_t kQ1_0 = 41;
inline constexpr uint32_t kQ2_0 = 42;
inline constexpr uint64_t kTrainedWidth = 64;
inline constexpr uint64_t kTrainedFfn = 128;

// Blocks of scales of all sizes and signs, some of them subnormal or zero, and any codes.
inline std::string random_blocks(uint64_t n_values, uint64_t block_values, std::mt19937* rng) {
  constexpr float kScales[] = {0.03125f, -0.0478515625f, 0x1p-20f, 0.0f, 0.7f};
  std::string data;
  for (uint64_t block = 0; block < n_values / block_values; ++block) {
    data += GgufWriter::bytes_of_number(f32_to_f16(kScales[(*rng)() % std::size(kScales)]));
    for (size_t i = 0; i < 16; ++i) data += static_cast<char>((*rng)());
  }
  return data;
}

// A Llama whose layer's matrices are Q2_0, and down Q1_0.
inline GgufWriter trained_gguf() {
  GgufWriter writer;
  writer.replace_count("llama.feed_forward_length", kTrainedFfn);
  writer.put_tiny_llama();
  writer.put_tensors(TinyCheckpoint(kTrainedWidth, kTrainedFfn, 50));
  std::mt19937 rng(5);
  for (test::GgufTestTensor& tensor : writer.tensors) {
    if (tensor.name.find("blk.") == std::string::npos || tensor.shape.size() != 2) continue;
    const bool is_down = tensor.name.find("ffn_down") != std::string::npos;
    tensor.type = is_down ? kQ1_0 : kQ2_0;
    tensor.data = random_blocks(tensor.shape[0] * tensor.shape[1], is_down ? 128 : 64, &rng);
  }
  return writer;
}

}  // namespace cria::test
