#include "quant/model/upper_bits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace cria {
namespace {

constexpr PlaneValues kAll[] = {
    PlaneValues::kNibbleCodes, PlaneValues::kInt8Codes,  PlaneValues::kF16,
    PlaneValues::kBf16,        PlaneValues::kBf16Scales, PlaneValues::kSignedBf16Scales,
    PlaneValues::kF32,         PlaneValues::kF32Scales,  PlaneValues::kRopeFrequencies};

using Bytes = std::vector<uint8_t>;

struct Parts {
  Bytes lower;
  Bytes upper;
};

Parts apart(PlaneValues values, const Bytes& raw) {
  const size_t n_upper = upper_bit_bytes(values, raw.size());
  Parts parts = {Bytes(raw.size() - n_upper), Bytes(n_upper)};
  take_upper_bits(values, raw.data(), raw.size(), parts.lower.data(), parts.upper.data());
  return parts;
}

Bytes eight_of_each(std::initializer_list<uint8_t> bytes) {
  Bytes out;
  for (const uint8_t byte : bytes) out.insert(out.end(), 8, byte);
  return out;
}

// Of 32 bytes, of which each quarter is eight times the same, as parts are then.
void expect_apart(PlaneValues values, std::initializer_list<uint8_t> quarters,
                  std::initializer_list<uint8_t> lower, uint8_t upper) {
  const Parts parts = apart(values, eight_of_each(quarters));
  EXPECT_EQ(parts.lower, eight_of_each(lower));
  EXPECT_EQ(parts.upper, eight_of_each({upper}));
}

TEST(UpperBits, AreAQuarterOfCodesAndHalfOfTwoBytes) {
  EXPECT_EQ(upper_bit_bytes(PlaneValues::kNibbleCodes, 64), 16U);
  EXPECT_EQ(upper_bit_bytes(PlaneValues::kInt8Codes, 64), 16U);
  EXPECT_EQ(upper_bit_bytes(PlaneValues::kF16, 64), 32U);
  EXPECT_EQ(upper_bit_bytes(PlaneValues::kBf16, 64), 32U);
  EXPECT_EQ(upper_bit_bytes(PlaneValues::kBf16Scales, 64), 32U);
  EXPECT_EQ(upper_bit_bytes(PlaneValues::kSignedBf16Scales, 64), 32U);
  EXPECT_EQ(upper_bit_bytes(PlaneValues::kF32, 64), 0U);
  EXPECT_EQ(upper_bit_bytes(PlaneValues::kF32Scales, 64), 0U);
  EXPECT_EQ(upper_bit_bytes(PlaneValues::kRopeFrequencies, 64), 0U);
}

TEST(UpperBits, OfABf16AreItsExponent) {
  Bytes raw;
  Bytes fractions_and_signs;
  Bytes exponents;
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned sign = i % 2;
    const unsigned exponent = 0x70 + i;
    const unsigned fraction = 0x55 + i;
    const unsigned value = sign << 15 | exponent << 7 | fraction;
    raw.insert(raw.end(), {static_cast<uint8_t>(value), static_cast<uint8_t>(value >> 8)});
    fractions_and_signs.push_back(static_cast<uint8_t>(fraction << 1 | sign));
    exponents.push_back(static_cast<uint8_t>(exponent));
  }
  const Parts parts = apart(PlaneValues::kBf16, raw);
  EXPECT_EQ(parts.lower, fractions_and_signs);
  EXPECT_EQ(parts.upper, exponents);
}

// A nibble is code + 8: the sign is its bit 3, the upper bit its bit 2, which is turned by the
// sign.
TEST(UpperBits, OfNibblesGoToTheirQuartersPlaces) {
  // One quarter at a time has codes of 7 = 1111, turned 1011, and the others of 0 = 1000, turned
  // 1100. The last quarter's bits 3, 1 and 0 go to places 2 of the others.
  expect_apart(PlaneValues::kNibbleCodes, {0x88, 0x88, 0x88, 0x88}, {0xcc, 0x88, 0x88}, 0xff);
  expect_apart(PlaneValues::kNibbleCodes, {0x8f, 0x88, 0x88, 0x88}, {0xcf, 0x88, 0x88}, 0xf7);
  expect_apart(PlaneValues::kNibbleCodes, {0x88, 0xf8, 0x88, 0x88}, {0xcc, 0xb8, 0x88}, 0xdf);
  expect_apart(PlaneValues::kNibbleCodes, {0x88, 0x88, 0x8f, 0x88}, {0xcc, 0x88, 0x8b}, 0xfe);
  expect_apart(PlaneValues::kNibbleCodes, {0x88, 0x88, 0x88, 0x8f}, {0xcc, 0x8c, 0x8c}, 0xfb);
}

// The sign of a byte is its bit 7, its upper bits are 6 and 5.
TEST(UpperBits, OfBytesGoToTheirQuartersPlaces) {
  expect_apart(PlaneValues::kInt8Codes, {0, 0, 0, 0}, {0, 0, 0}, 0);
  expect_apart(PlaneValues::kInt8Codes, {0x7f, 0, 0, 0}, {0x1f, 0, 0}, 0x18);
  expect_apart(PlaneValues::kInt8Codes, {0, 0x81, 0, 0}, {0, 0x81, 0}, 0x06);  // turned 0xe1
  expect_apart(PlaneValues::kInt8Codes, {0, 0, 0x40, 0}, {0, 0, 0}, 0x80);
  expect_apart(PlaneValues::kInt8Codes, {0, 0, 0x20, 0}, {0, 0, 0}, 0x01);
  // Turned 10111101: bits 4 and 3, 2 and 1, 7 and 0 go to places 6 and 5 of the others.
  expect_apart(PlaneValues::kInt8Codes, {0, 0, 0, 0xdd}, {0x60, 0x40, 0x60}, 0x20);
}

TEST(UpperBits, OfSmallCodesAreAllTheSame) {
  for (int code = -4; code < 4; ++code) {
    const auto byte = static_cast<uint8_t>(0x11 * (code + 8));
    EXPECT_EQ(apart(PlaneValues::kNibbleCodes, Bytes(32, byte)).upper, eight_of_each({0xff}));
  }
  for (int code = -32; code < 32; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    EXPECT_EQ(apart(PlaneValues::kInt8Codes, Bytes(32, byte)).upper, eight_of_each({0}));
  }
}

TEST(UpperBits, ComeBackInPlaceAtEverySize) {
  std::minstd_rand random(1);
  for (const PlaneValues values : kAll) {
    for (size_t n_bytes = 32; n_bytes <= 2048; n_bytes += 32) {
      const size_t n_upper = upper_bit_bytes(values, n_bytes);
      if (n_upper == 0) continue;
      // Exactly as large as said, so that a sanitizer sees a byte too many.
      const auto raw = std::make_unique<uint8_t[]>(n_bytes);
      const auto lower = std::make_unique<uint8_t[]>(n_bytes - n_upper);
      const auto upper = std::make_unique<uint8_t[]>(n_upper);
      const auto together = std::make_unique<uint8_t[]>(n_bytes);
      for (size_t i = 0; i < n_bytes; ++i) raw[i] = static_cast<uint8_t>(random() >> 8);
      take_upper_bits(values, raw.get(), n_bytes, lower.get(), upper.get());
      std::copy_n(lower.get(), n_bytes - n_upper, together.get());
      put_upper_bits(values, upper.get(), n_bytes, together.get());
      EXPECT_EQ(std::memcmp(together.get(), raw.get(), n_bytes), 0) << n_bytes;
    }
  }
}

// Every pair of bytes of the last quarter and another one.
TEST(UpperBits, EveryByteComesBack) {
  for (const PlaneValues values : {PlaneValues::kNibbleCodes, PlaneValues::kInt8Codes}) {
    for (size_t quarter = 0; quarter < 3; ++quarter) {
      for (unsigned i = 0; i < 0x10000; ++i) {
        uint8_t raw[32] = {};
        raw[quarter * 8] = static_cast<uint8_t>(i);
        raw[3 * 8] = static_cast<uint8_t>(i >> 8);
        uint8_t together[32];
        uint8_t upper[8];
        take_upper_bits(values, raw, sizeof raw, together, upper);
        put_upper_bits(values, upper, sizeof raw, together);
        ASSERT_EQ(std::memcmp(together, raw, sizeof raw), 0) << i;
      }
    }
  }
}

}  // namespace
}  // namespace cria
