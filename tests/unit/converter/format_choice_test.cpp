// The choice of formats against all choices there are.
#include "converter/calibration/format_choice.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace cria::converter {
namespace {

using Prices = std::vector<std::vector<FormatPrice>>;

struct Sums {
  uint64_t bytes = 0;
  double divergence = 0;
};

Sums sums_of(const Prices& prices, const std::vector<size_t>& places) {
  Sums sums;
  for (size_t i = 0; i < prices.size(); ++i) {
    sums.bytes += prices[i].at(places[i]).bytes;
    sums.divergence += prices[i].at(places[i]).divergence;
  }
  return sums;
}

// The least divergence within most_bytes, by looking at every choice.
double least_divergence(const Prices& prices, uint64_t most_bytes, size_t from = 0) {
  if (from == prices.size()) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (const FormatPrice& price : prices[from]) {
    if (price.bytes > most_bytes) continue;
    least = std::min(
        least, price.divergence + least_divergence(prices, most_bytes - price.bytes, from + 1));
  }
  return least;
}

TEST(FormatChoice, NoOtherChoiceWithinTheBytesDivergesLess) {
  std::mt19937 rng(7);
  for (size_t trial = 0; trial < 300; ++trial) {
    Prices prices(1 + rng() % 5);
    uint64_t least = 0;
    uint64_t most = 0;
    for (auto& of_matrix : prices) {
      const uint64_t size = 1 + rng() % 40;
      // Dearer formats are not always better, nor on a hull.
      for (size_t n = 1 + rng() % 4; n > 0; --n) {
        of_matrix.push_back({size * (4 + rng() % 5), static_cast<double>(rng() % 1000) / 64});
      }
      uint64_t low = of_matrix[0].bytes;
      uint64_t high = low;
      for (const FormatPrice& price : of_matrix) {
        low = std::min(low, price.bytes);
        high = std::max(high, price.bytes);
      }
      least += low;
      most += high;
    }
    for (const uint64_t budget :
         {least, (3 * least + most) / 4, (least + most) / 2, most, 2 * most}) {
      const Sums sums = sums_of(prices, choose_prices(prices, budget));
      EXPECT_LE(sums.bytes, budget);
      EXPECT_EQ(sums.divergence, least_divergence(prices, budget));
    }
  }
}

TEST(FormatChoice, OfEqualChoicesTheCheapestAndTheFirst) {
  const Prices prices = {{{20, 1.0}, {10, 1.0}, {10, 1.0}}, {{30, 0.0}, {10, 0.0}}};
  EXPECT_EQ(choose_prices(prices, 50), (std::vector<size_t>{1, 1}));
  // One of two like matrices can be better.
  const std::vector<FormatPrice> same = {{10, 3.0}, {20, 1.0}};
  const std::vector<size_t> one = choose_prices({same, same}, 35);
  EXPECT_EQ(one[0] + one[1], 1u);
  EXPECT_EQ(one, choose_prices({same, same}, 30));
}

TEST(FormatChoice, AStepThatDoesNotFitLeavesRoomForOthers) {
  // The first step would be the best for its bytes.
  const Prices prices = {{{100, 50.0}, {200, 0.0}}, {{10, 5.0}, {20, 3.0}, {30, 2.5}}};
  EXPECT_EQ(choose_prices(prices, 209), (std::vector<size_t>{0, 2}));
  EXPECT_EQ(choose_prices(prices, 210), (std::vector<size_t>{1, 0}));
  EXPECT_EQ(choose_prices(prices, 229), (std::vector<size_t>{1, 1}));
}

TEST(FormatChoice, SizesWithoutACommonStepStayWithinTheBytes) {
  std::mt19937 rng(3);
  Prices prices(40);
  uint64_t least = 0;
  for (auto& of_matrix : prices) {
    const uint64_t size = 1'000'003 + rng() % 1'000'000'000;
    for (const uint64_t eighths : {33, 34, 36, 64}) {
      of_matrix.push_back({size * eighths / 64 + rng() % 7, 1.0 / static_cast<double>(eighths)});
    }
    least += of_matrix[0].bytes;
  }
  for (const double share : {1.0, 1.1, 1.5, 1.9}) {
    const auto budget = static_cast<uint64_t>(share * static_cast<double>(least));
    const Sums sums = sums_of(prices, choose_prices(prices, budget));
    EXPECT_LE(sums.bytes, budget);
    if (share > 1 && share < 1.9) {
      EXPECT_GT(static_cast<double>(sums.bytes), 0.999 * static_cast<double>(budget));
    }
  }
}

}  // namespace
}  // namespace cria::converter
