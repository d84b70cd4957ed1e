#include "converter/gguf/gguf_blocks.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "converter/float_rows.h"
#include "quant/numbers/float16.h"

namespace cria::converter {
namespace {

constexpr size_t kSmall = 32;   // values of a small block
constexpr size_t kLarge = 256;  // and of a large one
constexpr size_t kHalfBytes = 2;
constexpr uint8_t kLow4 = 0x0f;
constexpr uint8_t kLow2 = 0x03;
constexpr uint8_t kLow6 = 0x3f;

constexpr float kFixedValues[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                    1,    13,   25,  38,  53,  69,  89,  113};

uint16_t word_at(const uint8_t* bytes) {
  uint16_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

float half_at(const uint8_t* bytes) { return f16_to_f32(word_at(bytes)); }

int bit_at(const uint8_t* bits, size_t i) { return bits[i / 8] >> (i % 8) & 1; }

// The q of value i of a small block: low halves first, then high halves.
int small_code(const uint8_t* q, size_t i) {
  constexpr size_t kHalf = kSmall / 2;
  return i < kHalf ? q[i] & kLow4 : q[i - kHalf] >> 4;
}

void widen_f32(const uint8_t* bytes, size_t n, float* values) {
  widen(SourceType::kF32, bytes, n, values);
}
void widen_f16(const uint8_t* bytes, size_t n, float* values) {
  widen(SourceType::kF16, bytes, n, values);
}
void widen_bf16(const uint8_t* bytes, size_t n, float* values) {
  widen(SourceType::kBf16, bytes, n, values);
}

void q4_0_block(const uint8_t* block, float* values) {
  constexpr int kZero = 8;
  const float d = half_at(block);
  for (size_t i = 0; i < kSmall; ++i) {
    values[i] = d * static_cast<float>(small_code(block + kHalfBytes, i) - kZero);
  }
}

void q4_1_block(const uint8_t* block, float* values) {
  const float d = half_at(block);
  const float m = half_at(block + kHalfBytes);
  for (size_t i = 0; i < kSmall; ++i) {
    values[i] = d * static_cast<float>(small_code(block + 2 * kHalfBytes, i)) + m;
  }
}

void q5_0_block(const uint8_t* block, float* values) {
  constexpr int kZero = 16;
  const float d = half_at(block);
  const uint8_t* high = block + kHalfBytes;
  const uint8_t* q = high + kSmall / 8;
  for (size_t i = 0; i < kSmall; ++i) {
    const int code = small_code(q, i) | bit_at(high, i) << 4;
    values[i] = d * static_cast<float>(code - kZero);
  }
}

void q5_1_block(const uint8_t* block, float* values) {
  const float d = half_at(block);
  const float m = half_at(block + kHalfBytes);
  const uint8_t* high = block + 2 * kHalfBytes;
  const uint8_t* q = high + kSmall / 8;
  for (size_t i = 0; i < kSmall; ++i) {
    values[i] = d * static_cast<float>(small_code(q, i) | bit_at(high, i) << 4) + m;
  }
}

void q8_0_block(const uint8_t* block, float* values) {
  const float d = half_at(block);
  for (size_t i = 0; i < kSmall; ++i) {
    values[i] = d * static_cast<float>(static_cast<int8_t>(block[kHalfBytes + i]));
  }
}

void iq4_nl_block(const uint8_t* block, float* values) {
  const float d = half_at(block);
  for (size_t i = 0; i < kSmall; ++i) {
    values[i] = d * kFixedValues[small_code(block + kHalfBytes, i)];
  }
}

void q1_0_block(const uint8_t* block, float* values) {
  constexpr size_t kValues = 128;
  const float d = half_at(block);
  for (size_t i = 0; i < kValues; ++i) values[i] = bit_at(block + kHalfBytes, i) != 0 ? d : -d;
}

template <size_t kValues>
void q2_0_block(const uint8_t* block, float* values) {
  const float d = half_at(block);
  for (size_t i = 0; i < kValues; ++i) {
    const int code = block[kHalfBytes + i / 4] >> (i % 4 * 2) & kLow2;
    values[i] = d * static_cast<float>(code - 1);
  }
}

// The two bits of value i where 32 bytes hold 128 values: 32 in the lowest bits, 32 in the next...
int two_bits(const uint8_t* q, size_t i) {
  constexpr size_t kRun = 32;
  constexpr size_t kPart = 128;
  return q[i / kPart * kRun + i % kRun] >> (i % kPart / kRun * 2) & kLow2;
}

// The four bits of value i where 32 bytes hold 64 values: 32 in the low halves, 32 in the high.
int four_bits(const uint8_t* q, size_t i) {
  constexpr size_t kRun = 32;
  const uint8_t byte = q[i / (2 * kRun) * kRun + i % kRun];
  return i / kRun % 2 == 0 ? byte & kLow4 : byte >> 4;
}

// The bit of value i where bit k of 32 bytes holds the k-th 32 values.
int one_bit(const uint8_t* bits, size_t i) {
  constexpr size_t kRun = 32;
  return bits[i % kRun] >> (i / kRun) & 1;
}

void q2_k_block(const uint8_t* block, float* values) {
  constexpr size_t kRun = 16;
  const uint8_t* pairs = block;
  const uint8_t* q = pairs + kLarge / kRun;
  const float d = half_at(q + kLarge / 4);
  const float m = half_at(q + kLarge / 4 + kHalfBytes);
  for (size_t i = 0; i < kLarge; ++i) {
    const uint8_t pair = pairs[i / kRun];
    const float scale = d * static_cast<float>(pair & kLow4);
    const float minimum = m * static_cast<float>(pair >> 4);
    values[i] = scale * static_cast<float>(two_bits(q, i)) - minimum;
  }
}

void q3_k_block(const uint8_t* block, float* values) {
  constexpr size_t kRun = 16;
  constexpr int kScaleZero = 32;
  constexpr int kZero = 4;
  const uint8_t* high = block;
  const uint8_t* q = high + kLarge / 8;
  const uint8_t* scales = q + kLarge / 4;
  const uint8_t* scale_tops = scales + 8;
  const float d = half_at(scale_tops + 4);
  float run_scales[kLarge / kRun];
  for (size_t run = 0; run < kLarge / kRun; ++run) {
    const int low = run < 8 ? scales[run] & kLow4 : scales[run - 8] >> 4;
    const int top = scale_tops[run % 4] >> (run / 4 * 2) & kLow2;
    run_scales[run] = d * static_cast<float>((low | top << 4) - kScaleZero);
  }
  for (size_t i = 0; i < kLarge; ++i) {
    const int code = (two_bits(q, i) | one_bit(high, i) << 2) - kZero;
    values[i] = run_scales[i / kRun] * static_cast<float>(code);
  }
}

// Scale and minimum of each run of 32 values of a Q4_K or Q5_K block, from twelve bytes of six
// bits.
void unpack_pairs(const uint8_t* packed, int* scales, int* minima) {
  constexpr size_t kFirst = 4;  // that are whole
  constexpr int kTopShift = 2;
  constexpr int kTopMask = 0x30;
  for (size_t i = 0; i < kFirst; ++i) {
    const uint8_t a = packed[i];
    const uint8_t b = packed[i + kFirst];
    const uint8_t halves = packed[i + 2 * kFirst];
    scales[i] = a & kLow6;
    minima[i] = b & kLow6;
    scales[i + kFirst] = (halves & kLow4) | (a >> kTopShift & kTopMask);
    minima[i + kFirst] = halves >> 4 | (b >> kTopShift & kTopMask);
  }
}

// A Q4_K block; high: the fifth bits of a Q5_K block, or nullptr.
void k_block(const uint8_t* block, const uint8_t* high, const uint8_t* q, float* values) {
  constexpr size_t kRun = 32;
  const float d = half_at(block);
  const float m = half_at(block + kHalfBytes);
  int scales[kLarge / kRun];
  int minima[kLarge / kRun];
  unpack_pairs(block + 2 * kHalfBytes, scales, minima);
  for (size_t i = 0; i < kLarge; ++i) {
    const float scale = d * static_cast<float>(scales[i / kRun]);
    const float minimum = m * static_cast<float>(minima[i / kRun]);
    const int code = four_bits(q, i) | (high != nullptr ? one_bit(high, i) << 4 : 0);
    values[i] = scale * static_cast<float>(code) - minimum;
  }
}

constexpr size_t kPairBytes = 12;
constexpr size_t kKHeadBytes = 2 * kHalfBytes + kPairBytes;

void q4_k_block(const uint8_t* block, float* values) {
  k_block(block, nullptr, block + kKHeadBytes, values);
}

void q5_k_block(const uint8_t* block, float* values) {
  const uint8_t* high = block + kKHeadBytes;
  k_block(block, high, high + kLarge / 8, values);
}

void q6_k_block(const uint8_t* block, float* values) {
  constexpr size_t kRun = 16;
  constexpr int kZero = 32;
  constexpr size_t kPart = 128;
  const uint8_t* q = block;
  const uint8_t* high = q + kLarge / 2;
  const uint8_t* scales = high + kLarge / 4;
  const float d = half_at(scales + kLarge / kRun);
  for (size_t i = 0; i < kLarge; ++i) {
    // Of 128 values in 64 bytes the first 64 are in the low halves.
    const uint8_t byte = q[i / kPart * kPart / 2 + i % (kPart / 2)];
    const int low = i % kPart < kPart / 2 ? byte & kLow4 : byte >> 4;
    const float scale = d * static_cast<float>(static_cast<int8_t>(scales[i / kRun]));
    values[i] = scale * static_cast<float>((low | two_bits(high, i) << 4) - kZero);
  }
}

void iq4_xs_block(const uint8_t* block, float* values) {
  constexpr int kScaleZero = 32;
  const float d = half_at(block);
  const uint16_t tops = word_at(block + kHalfBytes);
  const uint8_t* lows = block + 2 * kHalfBytes;
  const uint8_t* q = lows + kLarge / kSmall / 2;
  for (size_t run = 0; run < kLarge / kSmall; ++run) {
    const int low = lows[run / 2] >> (run % 2 * 4) & kLow4;
    const int top = tops >> (run * 2) & kLow2;
    const float scale = d * static_cast<float>((low | top << 4) - kScaleZero);
    for (size_t i = 0; i < kSmall; ++i) {
      values[run * kSmall + i] = scale * kFixedValues[small_code(q + run * kSmall / 2, i)];
    }
  }
}

template <void (*kBlock)(const uint8_t*, float*), size_t kBytes, size_t kValues>
void each(const uint8_t* blocks, size_t n_blocks, float* values) {
  for (size_t i = 0; i < n_blocks; ++i) kBlock(blocks + i * kBytes, values + i * kValues);
}

template <void (*kBlock)(const uint8_t*, float*), uint32_t kBytes, uint32_t kValues>
constexpr GgufType type_of(uint32_t id, const char* name) {
  return {id, name, kValues, kBytes, &each<kBlock, kBytes, kValues>};
}

constexpr GgufType trained_as(format::NumberFormat number_format, GgufType type) {
  type.trained_format = number_format;
  return type;
}

constexpr GgufType unread(uint32_t id, const char* name, uint32_t values, uint32_t bytes) {
  return {id, name, values, bytes, nullptr};
}

constexpr GgufType kTypes[] = {
    {0, "F32", 1, 4, &widen_f32},
    {1, "F16", 1, 2, &widen_f16},
    type_of<q4_0_block, 18, kSmall>(kGgufQ4_0, "Q4_0"),
    type_of<q4_1_block, 20, kSmall>(3, "Q4_1"),
    type_of<q5_0_block, 22, kSmall>(6, "Q5_0"),
    type_of<q5_1_block, 24, kSmall>(7, "Q5_1"),
    type_of<q8_0_block, 34, kSmall>(8, "Q8_0"),
    unread(9, "Q8_1", 32, 36),
    type_of<q2_k_block, 84, kLarge>(10, "Q2_K"),
    type_of<q3_k_block, 110, kLarge>(11, "Q3_K"),
    type_of<q4_k_block, 144, kLarge>(12, "Q4_K"),
    type_of<q5_k_block, 176, kLarge>(13, "Q5_K"),
    type_of<q6_k_block, 210, kLarge>(14, "Q6_K"),
    unread(15, "Q8_K", 256, 292),
    unread(16, "IQ2_XXS", 256, 66),
    unread(17, "IQ2_XS", 256, 74),
    unread(18, "IQ3_XXS", 256, 98),
    unread(19, "IQ1_S", 256, 50),
    type_of<iq4_nl_block, 18, kSmall>(20, "IQ4_NL"),
    unread(21, "IQ3_S", 256, 110),
    unread(22, "IQ2_S", 256, 82),
    type_of<iq4_xs_block, 136, kLarge>(23, "IQ4_XS"),
    unread(24, "I8", 1, 1),
    unread(25, "I16", 1, 2),
    unread(26, "I32", 1, 4),
    unread(27, "I64", 1, 8),
    unread(28, "F64", 1, 8),
    unread(29, "IQ1_M", 256, 56),
    {30, "BF16", 1, 2, &widen_bf16},
    unread(34, "TQ1_0", 256, 54),
    unread(35, "TQ2_0", 256, 66),
    unread(39, "MXFP4", 32, 17),
    trained_as(format::NumberFormat::kBit1, type_of<q1_0_block, 18, 128>(41, "Q1_0")),
    trained_as(format::NumberFormat::kBit2, type_of<q2_0_block<64>, 18, 64>(kGgufQ2_0, "Q2_0")),
};

}  // namespace

const GgufType kGgufWideQ2_0 =
    trained_as(format::NumberFormat::kBit2,
               type_of<q2_0_block<128>, 34, 128>(kGgufQ2_0, "Q2_0 in groups of 128"));

const GgufType* find_gguf_type(uint32_t id) {
  const auto* found = std::find_if(std::begin(kTypes), std::end(kTypes),
                                   [id](const GgufType& type) { return type.id == id; });
  return found == std::end(kTypes) ? nullptr : found;
}

void unpack_q4_0(const uint8_t* blocks, size_t n_blocks, int8_t* codes, float* scales) {
  constexpr size_t kBlockBytes = 18;
  constexpr int kZero = 8;
  for (size_t block = 0; block < n_blocks; ++block) {
    const uint8_t* bytes = blocks + block * kBlockBytes;
    scales[block] = half_at(bytes);
    for (size_t i = 0; i < kSmall; ++i) {
      codes[block * kSmall + i] = static_cast<int8_t>(small_code(bytes + kHalfBytes, i) - kZero);
    }
  }
}

}  // namespace cria::converter
