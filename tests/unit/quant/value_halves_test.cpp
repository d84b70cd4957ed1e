#include "quant/value_halves.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

namespace cria {
namespace {

constexpr PlaneValues kWithHalves[] = {PlaneValues::kAny,        PlaneValues::kInt8Codes,
                                       PlaneValues::kF16,        PlaneValues::kBf16,
                                       PlaneValues::kBf16Scales, PlaneValues::kSignedBf16Scales};

using Bytes = std::vector<uint8_t>;

Bytes apart(PlaneValues values, const Bytes& raw) {
  Bytes out(raw.size());
  take_halves_apart(values, raw.data(), raw.size(), out.data());
  return out;
}

TEST(ValueHalves, LowBytesComeFirst) {
  EXPECT_EQ(apart(PlaneValues::kBf16, {0x11, 0xa1, 0x12, 0xa2, 0x13, 0xa3}),
            (Bytes{0x11, 0x12, 0x13, 0xa1, 0xa2, 0xa3}));
}

// Codes in the order of their sizes: 0, -1, 1, -2, ...; a nibble is code + 8.
TEST(ValueHalves, NibblesAreSharedOutBySize) {
  // Codes 0 and -1, -2 and 2, 7 and -8, 6 and 5: folded 0 1, 3 4, 14 15, 12 10; each low nibble
  // first. Halves of bytes 0 and 2 go together, and those of bytes 1 and 3.
  const Bytes raw = {0x78, 0xa6, 0x0f, 0xde};
  EXPECT_EQ(apart(PlaneValues::kAny, raw), (Bytes{0xd8, 0x83, 0xcc, 0x9c}));
}

TEST(ValueHalves, BytesAreSharedOutBySize) {
  // Codes 0, -1, 127, -128: folded 0, 1, 254, 255.
  EXPECT_EQ(apart(PlaneValues::kInt8Codes, {0x00, 0xff, 0x7f, 0x80}),
            (Bytes{0xe0, 0xf1, 0xf0, 0xf0}));
}

TEST(ValueHalves, GoTogetherAgainAtEverySize) {
  std::minstd_rand random(1);
  for (const PlaneValues values : kWithHalves) {
    for (size_t n_bytes = 0; n_bytes <= 300; ++n_bytes) {
      // Exactly as large as said, so that a sanitizer sees a byte too many.
      const auto raw = std::make_unique<uint8_t[]>(n_bytes);
      const auto apart = std::make_unique<uint8_t[]>(n_bytes);
      const auto together = std::make_unique<uint8_t[]>(n_bytes);
      for (size_t i = 0; i < n_bytes; ++i) raw[i] = static_cast<uint8_t>(random() >> 8);
      take_halves_apart(values, raw.get(), n_bytes, apart.get());
      put_halves_together(values, apart.get(), n_bytes, together.get());
      EXPECT_EQ(std::memcmp(together.get(), raw.get(), n_bytes), 0) << n_bytes;
    }
  }
}

TEST(ValueHalves, EveryPairOfCodesComesBack) {
  for (const PlaneValues values : {PlaneValues::kAny, PlaneValues::kInt8Codes}) {
    for (unsigned i = 0; i < 0x10000; ++i) {
      const uint8_t raw[] = {static_cast<uint8_t>(i), static_cast<uint8_t>(i >> 8)};
      uint8_t apart[2];
      uint8_t together[2];
      take_halves_apart(values, raw, sizeof raw, apart);
      put_halves_together(values, apart, sizeof apart, together);
      ASSERT_EQ(std::memcmp(together, raw, sizeof raw), 0) << i;
    }
  }
}

// Small codes, which are the likely ones, have upper halves of zero.
TEST(ValueHalves, SmallCodesDifferInTheirLowerHalvesAlone) {
  for (int code = -8; code < 8; ++code) {
    const Bytes out = apart(PlaneValues::kInt8Codes, {static_cast<uint8_t>(code), 0});
    EXPECT_EQ(out[1], 0) << code;
  }
  for (int code = -2; code < 2; ++code) {
    const Bytes out = apart(PlaneValues::kAny, {static_cast<uint8_t>(0x11 * (code + 8)), 0x88});
    EXPECT_EQ(out[1], 0) << code;
  }
}

}  // namespace
}  // namespace cria
