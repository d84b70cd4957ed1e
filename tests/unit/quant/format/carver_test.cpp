#include "quant/format/carver.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace cria {
namespace {

TEST(Carver, CountsWhatItHandsOut) {
  alignas(64) static uint8_t memory[4096];
  Carver counting;
  Carver carving(memory);
  uint64_t begin = 0;
  for (const uint64_t n : {1, 16, 0, 17, 63, 64, 65}) {
    EXPECT_EQ(counting.take<float>(n), nullptr);
    float* const part = carving.take<float>(n);
    EXPECT_EQ(reinterpret_cast<uint8_t*>(part), memory + begin) << n;
    begin += (n * sizeof(float) + 63) / 64 * 64;
    EXPECT_EQ(counting.taken(), begin);
    EXPECT_EQ(carving.taken(), begin);
  }
  EXPECT_EQ(counting.take<uint16_t>(33), nullptr);
  EXPECT_EQ(counting.taken(), begin + 128);
}

TEST(Carver, SumsAndProductsStickInsteadOfWrapping) {
  constexpr uint64_t kMost = uint64_t{1} << 63;
  EXPECT_EQ(product(0, UINT64_MAX), 0u);
  EXPECT_EQ(product(UINT64_MAX, 0), 0u);
  EXPECT_EQ(product(uint64_t{1} << 31, uint64_t{1} << 31), uint64_t{1} << 62);
  EXPECT_EQ(product(uint64_t{1} << 32, uint64_t{1} << 31), kMost);
  EXPECT_EQ(product(uint64_t{1} << 32, uint64_t{1} << 32), kMost);
  EXPECT_EQ(product(UINT64_MAX, UINT64_MAX), kMost);
  EXPECT_EQ(product(3, kMost / 3), kMost / 3 * 3);
  EXPECT_EQ(product(3, kMost / 3 + 1), kMost);
  EXPECT_EQ(sum(1, 2), 3u);
  EXPECT_EQ(sum(kMost - 2, 1), kMost - 1);
  EXPECT_EQ(sum(kMost - 1, 1), kMost);
  EXPECT_EQ(sum(kMost, kMost), kMost);
  EXPECT_EQ(sum(0, UINT64_MAX), kMost);
  EXPECT_EQ(sum(UINT64_MAX, UINT64_MAX), kMost);
  EXPECT_EQ(block(0), 0u);
  EXPECT_EQ(block(1), 64u);
  EXPECT_EQ(block(kMost - 64), kMost);
  EXPECT_EQ(block(kMost - 128), kMost - 128);
  EXPECT_EQ(block(UINT64_MAX), kMost);
}

// So that one test at the end catches all.
TEST(Carver, StaysFullOnceItIs) {
  Carver carver;
  EXPECT_EQ(carver.take<float>(uint64_t{1} << 62), nullptr);
  EXPECT_EQ(carver.taken(), kSaturated);
  EXPECT_EQ(carver.take<uint8_t>(1), nullptr);
  EXPECT_EQ(carver.taken(), kSaturated);
  EXPECT_EQ(carver.take<uint8_t>(0), nullptr);
  EXPECT_EQ(carver.taken(), kSaturated);
}

// A Carver adds up without calling sum, product and block, and must not differ from them.
TEST(Carver, CountsAsSumsAndProductsDo) {
  constexpr uint64_t kBytes[] = {0,
                                 1,
                                 64,
                                 65,
                                 kSaturated / 2 - 64,
                                 kSaturated / 2,
                                 kSaturated - 129,
                                 kSaturated - 65,
                                 kSaturated - 64,
                                 kSaturated - 1,
                                 kSaturated,
                                 UINT64_MAX};
  constexpr uint32_t kCounts[] = {0, 1, 63, 1u << 30, 1u << 31, UINT32_MAX};
  for (const uint64_t first : kBytes) {
    for (const uint64_t second : kBytes) {
      Carver carver;
      (void)carver.take<uint8_t>(first);
      (void)carver.take<uint8_t>(second);
      EXPECT_EQ(carver.taken(), sum(block(first), block(second))) << first << ' ' << second;
    }
    for (const uint32_t n_rows : kCounts) {
      for (const uint32_t width : kCounts) {
        Carver carver;
        (void)carver.take<uint8_t>(first);
        (void)carver.take<uint64_t>(n_rows, width);
        const uint64_t rows = block(product(product(n_rows, width), sizeof(uint64_t)));
        EXPECT_EQ(carver.taken(), sum(block(first), rows))
            << first << ' ' << n_rows << ' ' << width;
      }
    }
  }
}

}  // namespace
}  // namespace cria
