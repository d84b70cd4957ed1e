#include "quant/numbers/float16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace cria {
namespace {

TEST(Float16, EveryHalfSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = f16_to_f32(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(value)))) << bits;
    } else {
      EXPECT_EQ(f32_to_f16(value), half) << bits;
    }
  }
}

// The value by its definition: (-1)^s * 2^(e-15) * (1 + f/1024), or f * 2^-24 when e is zero.
TEST(Float16, HalfHasTheValueOfItsDefinition) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const int exponent = static_cast<int>(bits >> 10);
    const double fraction = bits & 0x3ff;
    const double value =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    ASSERT_EQ(static_cast<double>(f16_to_f32(static_cast<uint16_t>(bits))), value) << bits;
    ASSERT_EQ(static_cast<double>(f16_to_f32(static_cast<uint16_t>(bits | 0x8000))), -value);
  }
}

TEST(Float16, FloatRoundsToTheNearestHalfAndTiesToEven) {
  // Between every two neighbouring halves: the middle goes to the even one, its neighbours do not.
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {
    const float low = f16_to_f32(static_cast<uint16_t>(bits));
    const float high = f16_to_f32(static_cast<uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    const auto even = static_cast<uint16_t>(bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(f32_to_f16(middle), even) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 0.0f)), bits) << bits;
    ASSERT_EQ(f32_to_f16(std::nextafter(middle, 1e9f)), bits + 1) << bits;
  }
  EXPECT_EQ(f32_to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e10f), 0xfc00);
}

TEST(Float16, FloatRoundsToTheNearestBf16AndTiesToEven) {
  for (uint32_t high = 0; high < 0x7f80; ++high) {
    const uint32_t base = high << 16;
    const auto even = static_cast<uint16_t>(high % 2 == 0 ? high : high + 1);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(base)), high);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(base | 0x7fff)), high);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(base | 0x8000)), even);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(base | 0x8001)), high + 1);
    ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(base | 0x80008001)), 0x8000 | (high + 1));
  }
  EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace cria
