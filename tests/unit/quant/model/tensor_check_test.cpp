#include "quant/model/tensor_check.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "quant/numbers/float16.h"

namespace cria {
namespace {

using Bytes = std::vector<uint8_t>;

// The rules said once more, value by value.
bool is_allowed(PlaneValues values, uint32_t bits) {
  const auto is_scale = [](float scale) {
    return std::bit_cast<uint32_t>(scale) == 0 || (std::isnormal(scale) && scale > 0);
  };
  switch (values) {
    case PlaneValues::kNibbleCodes:
    case PlaneValues::kTrainedBits:
      return true;
    case PlaneValues::kInt8Codes:
      return static_cast<int8_t>(bits) >= -127;
    case PlaneValues::kF32:
      return std::isfinite(std::bit_cast<float>(bits));
    case PlaneValues::kF16:
    case PlaneValues::kF16Scales:
      return std::isfinite(f16_to_f32(static_cast<uint16_t>(bits)));
    case PlaneValues::kBf16:
      return std::isfinite(bf16_to_f32(static_cast<uint16_t>(bits)));
    case PlaneValues::kF32Scales:
      return is_scale(std::bit_cast<float>(bits));
    case PlaneValues::kBf16Scales:
      return is_scale(bf16_to_f32(static_cast<uint16_t>(bits)));
    case PlaneValues::kSignedBf16Scales: {
      const float scale = bf16_to_f32(static_cast<uint16_t>(bits));
      return is_scale(scale) || (scale != 0 && is_scale(-scale));
    }
    case PlaneValues::kRopeFrequencies: {
      const auto value = std::bit_cast<float>(bits);
      return value >= 0 && !std::signbit(value) && value <= 8;
    }
  }
  return false;
}

size_t size_of_value(PlaneValues values) {
  switch (values) {
    case PlaneValues::kNibbleCodes:
    case PlaneValues::kTrainedBits:
    case PlaneValues::kInt8Codes:
      return 1;
    case PlaneValues::kF32:
    case PlaneValues::kF32Scales:
    case PlaneValues::kRopeFrequencies:
      return 4;
    default:
      return 2;
  }
}

// One value among allowed ones, at each of several places of a plane of n values.
void check_value(PlaneValues values, uint32_t bits, size_t* n_bad) {
  const size_t size = size_of_value(values);
  const bool allowed = is_allowed(values, bits);
  *n_bad += allowed ? 0 : 1;
  for (const size_t n : {size_t{1}, size_t{3}, size_t{65}}) {
    for (const size_t at : {size_t{0}, n / 2, n - 1}) {
      Bytes plane(n * size + 1, 0);
      std::memcpy(plane.data() + 1 + at * size, &bits, size);
      ASSERT_EQ(values_hold(values, plane.data() + 1, n * size), allowed)
          << "kind " << static_cast<int>(values) << " bits " << std::hex << bits << " at " << at
          << " of " << n;
    }
  }
}

TEST(TensorCheck, EveryByteAndHalfIsJudgedAsItsValue) {
  for (const PlaneValues values :
       {PlaneValues::kNibbleCodes, PlaneValues::kTrainedBits, PlaneValues::kInt8Codes,
        PlaneValues::kF16, PlaneValues::kBf16, PlaneValues::kBf16Scales,
        PlaneValues::kSignedBf16Scales, PlaneValues::kF16Scales}) {
    size_t n_bad = 0;
    const uint32_t n = size_of_value(values) == 1 ? 0x100 : 0x10000;
    for (uint32_t bits = 0; bits < n; ++bits) {
      check_value(values, bits, &n_bad);
      if (HasFatalFailure()) return;
    }
    if (values == PlaneValues::kNibbleCodes || values == PlaneValues::kTrainedBits) {
      EXPECT_EQ(n_bad, 0u);
    } else {
      EXPECT_GT(n_bad, 0u);
    }
  }
}

TEST(TensorCheck, FloatsAtEveryBorderAreJudgedAsTheirValue) {
  for (const PlaneValues values :
       {PlaneValues::kF32, PlaneValues::kF32Scales, PlaneValues::kRopeFrequencies}) {
    size_t n_bad = 0;
    for (const uint32_t border : {0u, 0x00800000u, 0x3f800000u, 0x41000000u, 0x7f800000u,
                                  0x80000000u, 0x80800000u, 0xff800000u}) {
      for (uint32_t i = 0; i < 5; ++i) {
        check_value(values, border + i - 2, &n_bad);
        if (HasFatalFailure()) return;
      }
    }
    for (uint32_t exponent = 0; exponent < 0x200; ++exponent) {
      check_value(values, exponent << 23 | 0x1234, &n_bad);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(n_bad, 0u);
  }
}

// Whatever lies beside it: carries and borrows of a neighbour must not hide or make a violation.
TEST(TensorCheck, NeighboursOfEveryKindChangeNothing) {
  for (uint32_t low = 0; low < 0x100; ++low) {
    for (uint32_t high = 0; high < 0x100; ++high) {
      const uint8_t pair[] = {static_cast<uint8_t>(low), static_cast<uint8_t>(high)};
      ASSERT_EQ(values_hold(PlaneValues::kInt8Codes, pair, 2), low != 0x80 && high != 0x80)
          << low << ' ' << high;
    }
  }
  for (const PlaneValues values :
       {PlaneValues::kF16, PlaneValues::kF16Scales, PlaneValues::kBf16}) {
    for (uint32_t low = 0; low < 0x10000; low += 0x3f) {
      for (const uint32_t high : {0u, 0x7bffu, 0x7c00u, 0x7f7fu, 0x7f80u, 0x8000u, 0xffffu}) {
        const uint16_t pair[] = {static_cast<uint16_t>(low), static_cast<uint16_t>(high)};
        ASSERT_EQ(values_hold(values, reinterpret_cast<const uint8_t*>(pair), sizeof pair),
                  is_allowed(values, low) && is_allowed(values, high))
            << low << ' ' << high;
      }
    }
  }
}

TEST(TensorCheck, PlanesHaveTheKindOfTheirFormat) {
  using format::NumberFormat;
  const auto kind = [](NumberFormat f, Plane plane) {
    TensorSpec spec = {};
    spec.role = format::TensorRole::kEmbedding;
    spec.shape.number_format = f;
    return plane_values(spec, plane);
  };
  EXPECT_EQ(kind(NumberFormat::kInt4, Plane::kCodes), PlaneValues::kNibbleCodes);
  EXPECT_EQ(kind(NumberFormat::kInt4, Plane::kScales), PlaneValues::kBf16Scales);
  EXPECT_EQ(kind(NumberFormat::kInt4Nl, Plane::kCodes), PlaneValues::kNibbleCodes);
  EXPECT_EQ(kind(NumberFormat::kInt4Nl, Plane::kScales), PlaneValues::kBf16Scales);
  EXPECT_EQ(kind(NumberFormat::kInt8, Plane::kCodes), PlaneValues::kInt8Codes);
  EXPECT_EQ(kind(NumberFormat::kInt8, Plane::kScales), PlaneValues::kF32Scales);
  EXPECT_EQ(kind(NumberFormat::kInt8G32, Plane::kCodes), PlaneValues::kInt8Codes);
  EXPECT_EQ(kind(NumberFormat::kInt8G32, Plane::kScales), PlaneValues::kBf16Scales);
  for (const NumberFormat f : {NumberFormat::kBit1, NumberFormat::kBit2}) {
    EXPECT_EQ(kind(f, Plane::kCodes), PlaneValues::kTrainedBits);
    EXPECT_EQ(kind(f, Plane::kScales), PlaneValues::kF16Scales);
  }
  EXPECT_EQ(kind(NumberFormat::kF32, Plane::kCodes), PlaneValues::kF32);
  EXPECT_EQ(kind(NumberFormat::kF16, Plane::kCodes), PlaneValues::kF16);
  EXPECT_EQ(kind(NumberFormat::kBf16, Plane::kCodes), PlaneValues::kBf16);
  TensorSpec with_signs = {};
  with_signs.role = format::TensorRole::kEmbedding;
  with_signs.shape.number_format = NumberFormat::kInt4;
  with_signs.has_signed_scales = true;
  EXPECT_EQ(plane_values(with_signs, Plane::kCodes), PlaneValues::kNibbleCodes);
  EXPECT_EQ(plane_values(with_signs, Plane::kScales), PlaneValues::kSignedBf16Scales);
  TensorSpec rope = {};
  rope.role = format::TensorRole::kRope;
  rope.form = TensorForm::kVector;
  rope.shape.number_format = NumberFormat::kF32;
  EXPECT_EQ(plane_values(rope, Plane::kCodes), PlaneValues::kRopeFrequencies);
  // Other vectors may be negative, and larger than frequencies.
  for (const auto role : {format::TensorRole::kDecay, format::TensorRole::kPositions,
                          format::TensorRole::kMixerNorm, format::TensorRole::kConvolution}) {
    rope.role = role;
    EXPECT_EQ(plane_values(rope, Plane::kCodes), PlaneValues::kF32);
  }
}

}  // namespace
}  // namespace cria
