// The number types of GGUF tensors: rows of blocks, each of some values after scales of their own.
//
// Half floats are written d and m; 4-bit codes q; the values of a block are numbered from 0.
//   Q4_0   32 values   d, q[16]: value i is d * (q - 8); byte i has value i in its low half and
//                      value i + 16 in its high half, here and in the four below
//   Q4_1   32          d, m, q[16]: d * q + m
//   Q5_0   32          d, high bits [4], q[16]: d * (q - 16), of five bits
//   Q5_1   32          d, m, high bits [4], q[16]: d * q + m
//   IQ4_NL 32          d, q[16]: d * (the q-th of sixteen fixed values)
//   Q8_0   32          d, q[32] of eight bits: d * q
//   Q1_0   128         d, bits [16]: d where the bit is set, else -d
//   Q2_0   64          d, q[16] of two bits each: d * (q - 1)
//   Q2_K   256         16 bytes of scale and minimum, q[64], d, m: d * scale * q - m * minimum, a
//                      pair for 16 values
//   Q3_K   256         high bits [32], q[64], 16 scales of six bits, d: d * (scale - 32) * (q - 4),
//                      a scale for 16 values
//   Q4_K   256         d, m, 8 scales and 8 minima of six bits, q[128]: as Q2_K, a pair for 32
//   Q5_K   256         the same with high bits [32] before q
//   Q6_K   256         q[128], high bits [64], 16 scales of eight bits, d: d * scale * (q - 32)
//   IQ4_XS 256         d, high bits of 8 scales, their low bits, q[128]: as IQ4_NL, with
//                      d * (scale - 32) for 32 values
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "quant/format/format.h"

namespace cria::converter {

struct GgufType {
  uint32_t id;  // as a file has it
  const char* name;
  uint32_t block_values;
  uint32_t block_bytes;
  // values [n_blocks][block_values] = blocks [n_blocks][block_bytes], in the order of operations of
  // llama.cpp, so that every bit is the same; nullptr: a type that is not read.
  void (*widen)(const uint8_t* blocks, size_t n_blocks, float* values);
  // That of cria which its weights were trained for.
  std::optional<format::NumberFormat> trained_format = std::nullopt;
};

// nullptr for an id that no type has.
[[nodiscard]] const GgufType* find_gguf_type(uint32_t id);

// Q2_0, and what forks of llama.cpp wrote under its number: blocks of 128 values, one scale each.
inline constexpr uint32_t kGgufQ2_0 = 42;
extern const GgufType kGgufWideQ2_0;

// The type whose blocks are a half-float scale and 32 codes of four bits.
inline constexpr uint32_t kGgufQ4_0 = 2;

// codes [n_blocks][32], -8..7, and scales [n_blocks] of Q4_0 blocks.
void unpack_q4_0(const uint8_t* blocks, size_t n_blocks, int8_t* codes, float* scales);

}  // namespace cria::converter
