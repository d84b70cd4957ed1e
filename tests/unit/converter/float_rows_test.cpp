// Widening is exact for every bit pattern, and nothing infinite passes the checks.
#include "converter/float_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "quant/numbers/float16.h"

namespace cria::test {
namespace {

using converter::SourceType;

constexpr size_t kPatterns = 1 << 16;

std::vector<float> widen_all(SourceType type) {
  std::vector<uint16_t> patterns(kPatterns);
  for (size_t i = 0; i < kPatterns; ++i) patterns[i] = static_cast<uint16_t>(i);
  std::vector<float> values(kPatterns);
  converter::widen(type, reinterpret_cast<const uint8_t*>(patterns.data()), kPatterns,
                   values.data());
  return values;
}

TEST(FloatRows, EveryFiniteHalfWidensToItsValue) {
  const std::vector<float> values = widen_all(SourceType::kF16);
  size_t compared = 0;
  for (size_t i = 0; i < kPatterns; ++i) {
    const float want = f16_to_f32(static_cast<uint16_t>(i));
    if (!std::isfinite(want)) continue;
    ASSERT_EQ(std::bit_cast<uint32_t>(want), std::bit_cast<uint32_t>(values[i])) << i;
    ++compared;
  }
  EXPECT_EQ(compared, kPatterns - 2 * 1024);
}

TEST(FloatRows, NoHalfThatIsNotFiniteBecomesFinite) {
  const std::vector<float> values = widen_all(SourceType::kF16);
  for (size_t i = 0; i < kPatterns; ++i) {
    EXPECT_EQ(std::isfinite(f16_to_f32(static_cast<uint16_t>(i))), std::isfinite(values[i])) << i;
  }
}

TEST(FloatRows, EveryBf16WidensToItsValue) {
  const std::vector<float> values = widen_all(SourceType::kBf16);
  for (size_t i = 0; i < kPatterns; ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), i << 16) << i;
  }
}

TEST(FloatRows, UnalignedBytesAreRead) {
  const float want = 1.25f;
  std::vector<uint8_t> bytes(1 + sizeof(want));
  std::memcpy(bytes.data() + 1, &want, sizeof(want));
  float value = 0;
  converter::widen(SourceType::kF32, bytes.data() + 1, 1, &value);
  EXPECT_EQ(value, want);
}

TEST(FloatRows, OneBadValueAnywhereIsFound) {
  constexpr size_t kValues = 67;
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (size_t at = 0; at < kValues; ++at) {
      std::vector<float> values(kValues, std::numeric_limits<float>::max());
      EXPECT_TRUE(converter::all_finite(values.data(), values.size()));
      values[at] = bad;
      EXPECT_FALSE(converter::all_finite(values.data(), values.size())) << at;
    }
  }
  EXPECT_TRUE(converter::all_finite(nullptr, 0));
}

TEST(FloatRows, TheLargestMagnitudeIgnoresSigns) {
  const std::vector<float> values = {0.5f, -3.0f, 2.0f, -0.0f};
  EXPECT_EQ(converter::largest_magnitude(values.data(), values.size()), 3.0f);
  EXPECT_EQ(converter::largest_magnitude(nullptr, 0), 0.0f);
}

}  // namespace
}  // namespace cria::test
