#include "quant/bytes_apart.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace cria {
namespace {

TEST(BytesApart, LowBytesComeFirst) {
  const uint8_t values[] = {0x11, 0xa1, 0x12, 0xa2, 0x13, 0xa3};
  std::vector<uint8_t> apart(sizeof values);
  take_bytes_apart(values, sizeof values, apart.data());
  EXPECT_EQ(apart, (std::vector<uint8_t>{0x11, 0x12, 0x13, 0xa1, 0xa2, 0xa3}));
}

TEST(BytesApart, GoTogetherAgainAtEverySize) {
  for (size_t n_bytes = 0; n_bytes <= 300; n_bytes += 2) {
    // Exactly as large as said, so that a sanitizer sees a byte too many.
    std::vector<uint8_t> values(n_bytes);
    std::iota(values.begin(), values.end(), uint8_t{7});
    std::vector<uint8_t> apart(n_bytes);
    std::vector<uint8_t> together(n_bytes);
    take_bytes_apart(values.data(), n_bytes, apart.data());
    put_bytes_together(apart.data(), n_bytes, together.data());
    EXPECT_EQ(together, values) << n_bytes;
  }
}

}  // namespace
}  // namespace cria
