// The values of every quantized GGUF type, against those that the gguf package for Python computes
// from the same bytes.
#include "converter/gguf/gguf_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

namespace cria::converter {
namespace {

constexpr size_t kBlocks = 3;
constexpr int kNone = -1;

// Bytes without a pattern, with half floats of sense at the places of scale and minimum; the scale
// of the last block is below zero.
std::vector<uint8_t> test_blocks(size_t block_bytes, int scale, int minimum) {
  std::vector<uint8_t> blocks;
  for (size_t k = 0; k < kBlocks; ++k) {
    std::vector<uint8_t> block(block_bytes);
    for (size_t i = 0; i < block_bytes; ++i) {
      block[i] = static_cast<uint8_t>(i * 73 + 41 + k * 101 + (i * i >> 3));
    }
    block[static_cast<size_t>(scale)] = static_cast<uint8_t>(0x13 + k);
    block[static_cast<size_t>(scale) + 1] = k < 2 ? 0x2c : 0xac;
    if (minimum != kNone) {
      block[static_cast<size_t>(minimum)] = 0x57;
      block[static_cast<size_t>(minimum) + 1] = static_cast<uint8_t>(0x30 + k);
    }
    blocks.insert(blocks.end(), block.begin(), block.end());
  }
  return blocks;
}

uint64_t fnv1a(const std::vector<float>& values) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const float value : values) {
    uint8_t bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    for (const uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  }
  return hash;
}

const GgufType* type_named(const std::string& name) {
  for (uint32_t id = 0; id < 64; ++id) {
    const GgufType* type = find_gguf_type(id);
    if (type != nullptr && name == type->name) return type;
  }
  return nullptr;
}

struct Expected {
  const char* type;
  int scale;  // place of the half floats in a block
  int minimum;
  float values[5];  // 0, 1, 17, the sixth of the second half, and the last
  uint64_t hash;    // of all, as bytes
};

constexpr Expected kExpected[] = {
    {"Q4_0",
     0,
     kNone,
     {0x1.872p-3f, -0x1.872p-3f, -0x1.04cp-1f, 0x1.05p-4f, -0x1.c93p-2f},
     0xcaddfdeb3fb86fbb},
    {"Q4_1",
     0,
     2,
     {0x1.172cp+0f, 0x1.6ac8p-1f, 0x1.6ac8p-1f, 0x1.2d6p-2f, -0x1.3fap-2f},
     0x003dcb8d20bbc479},
    {"Q5_0",
     0,
     kNone,
     {0x1.872p-3f, 0x1.c85p-1f, 0x1.04cp-3f, 0x1.878p-1f, 0x1.c93p-1f},
     0x82d783875e546ea0},
    {"Q5_1",
     0,
     2,
     {0x1.ba24p+0f, 0x1.68a8p+0f, 0x1.eb08p+0f, 0x1.f12p-2f, -0x1.9678p+0f},
     0xf11cc3236ad3c953},
    {"Q8_0",
     0,
     kNone,
     {-0x1.191fp+2f, 0x1.45fp-2f, -0x1.00adp+2f, 0x1.836cp+2f, 0x1.c93p+0f},
     0x0cf70e0431d4da0b},
    {"IQ4_NL",
     0,
     kNone,
     {0x1.35a4p+1f, -0x1.1d32p+1f, -0x1.02b68p+3f, 0x1.a82p-1f, -0x1.cd45p+2f},
     0x728bd7ed09e99404},
    {"Q2_K",
     80,
     82,
     {0x1.34fp-2f, 0x1.bfdp-1f, -0x1.63bp-1f, -0x1.8a6p-2f, -0x1.c188p+0f},
     0x8ef7e07d86bdd5b2},
    {"Q3_K",
     108,
     kNone,
     {-0x1.c85p-2f, 0x1.c85p-1f, 0x1.6688p+1f, 0x1.66ep+1f, -0x1.25e8p+2f},
     0x19f058be694e5bef},
    {"Q4_K",
     0,
     2,
     {0x1.ba38p-1f, -0x1.002p+1f, 0x1.d19p+0f, -0x1.338p+1f, -0x1.3704p+5f},
     0x7d62d5e96640ee2a},
    {"Q5_K",
     0,
     2,
     {0x1.0245cp+4f, 0x1.68d8p+2f, -0x1.7484p+2f, 0x1.407p+4f, -0x1.5291cp+5f},
     0x5ba6bff219dbcb92},
    {"Q6_K",
     208,
     kNone,
     {0x1.47f98p+3f, -0x1.76d4p+1f, 0x1.2b748p+5f, 0x1.ac34p+4f, -0x1.a888p+5f},
     0x0868ccf6daac03d3},
    {"IQ4_XS",
     0,
     kNone,
     {0x1.9a7a4p+4f, -0x1.82cbdp+6f, 0x1.a25f1p+6f, 0x1.05p-1f, 0x1.14d01p+6f},
     0x29041c44257f6cde},
};

TEST(GgufBlocks, HaveTheValuesOfAnIndependentReader) {
  for (const Expected& expected : kExpected) {
    const GgufType* type = type_named(expected.type);
    ASSERT_NE(type, nullptr) << expected.type;
    const std::vector<uint8_t> blocks =
        test_blocks(type->block_bytes, expected.scale, expected.minimum);
    std::vector<float> values(kBlocks * type->block_values);
    type->widen(blocks.data(), kBlocks, values.data());
    const size_t places[] = {0, 1, 17, values.size() / 2 + 5, values.size() - 1};
    for (size_t i = 0; i < std::size(places); ++i) {
      EXPECT_EQ(values[places[i]], expected.values[i]) << expected.type << " " << places[i];
    }
    EXPECT_EQ(fnv1a(values), expected.hash) << expected.type;
  }
}

TEST(GgufBlocks, OfQ4_0AreCodesTimesScales) {
  const GgufType* type = find_gguf_type(kGgufQ4_0);
  const std::vector<uint8_t> blocks = test_blocks(type->block_bytes, 0, kNone);
  std::vector<float> values(kBlocks * type->block_values);
  type->widen(blocks.data(), kBlocks, values.data());
  std::vector<int8_t> codes(values.size());
  std::vector<float> scales(kBlocks);
  unpack_q4_0(blocks.data(), kBlocks, codes.data(), scales.data());
  EXPECT_LT(scales[2], 0.0f);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_GE(codes[i], -8);
    EXPECT_LE(codes[i], 7);
    EXPECT_EQ(values[i], static_cast<float>(codes[i]) * scales[i / type->block_values]) << i;
  }
}

// The gguf package has none of these two: bytes written out, as llama.cpp's headers say.
TEST(GgufBlocks, OfTrainedBitsAreTheirScaleTimesFewNumbers) {
  const GgufType* one = find_gguf_type(41);
  ASSERT_STREQ(one->name, "Q1_0");
  std::vector<uint8_t> block(one->block_bytes, 0);
  block[1] = 0xb8;       // -0.5
  block[2] = 0x05;       // values 0 and 2
  block[2 + 15] = 0x80;  // value 127
  std::vector<float> values(one->block_values);
  one->widen(block.data(), 1, values.data());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i], i == 0 || i == 2 || i == 127 ? -0.5f : 0.5f) << i;
  }
  const GgufType* two = find_gguf_type(42);
  ASSERT_STREQ(two->name, "Q2_0");
  block.assign(two->block_bytes, 0x55);  // zeros
  block[0] = 0x00;
  block[1] = 0x34;       // 0.25
  block[2] = 0xe4;       // values 0 to 3: -1, 0, 1, 2
  block[2 + 15] = 0x15;  // value 63: -1
  values.assign(two->block_values, 9);
  two->widen(block.data(), 1, values.data());
  std::vector<float> want(64, 0.0f);
  want[0] = -0.25f, want[2] = 0.25f, want[3] = 0.5f, want[63] = -0.25f;
  EXPECT_EQ(values, want);
}

TEST(GgufBlocks, OfOtherTypesAreNotRead) {
  for (const char* name : {"IQ2_XXS", "IQ3_S", "TQ1_0", "MXFP4", "Q8_K", "I32"}) {
    const GgufType* type = type_named(name);
    ASSERT_NE(type, nullptr) << name;
    EXPECT_EQ(type->widen, nullptr) << name;
  }
  EXPECT_EQ(find_gguf_type(4), nullptr);
  EXPECT_EQ(find_gguf_type(UINT32_MAX), nullptr);
}

}  // namespace
}  // namespace cria::converter
