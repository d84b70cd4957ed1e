#include "converter/calibration/format_choice.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace cria::converter {
namespace {

using Prices = std::vector<FormatPrice>;

uint64_t least_bytes(const Prices& prices) {
  uint64_t least = prices.front().bytes;
  for (const FormatPrice& price : prices) least = std::min(least, price.bytes);
  return least;
}

// What all differences between a matrix's prices are multiples of, unless that is too fine.
uint64_t step_of(const std::vector<Prices>& prices, uint64_t room) {
  uint64_t step = 0;
  for (const Prices& of_matrix : prices) {
    const uint64_t least = least_bytes(of_matrix);
    for (const FormatPrice& price : of_matrix) step = std::gcd(step, price.bytes - least);
  }
  const uint64_t most = std::min(kMostPriceSteps, kMostPlaces / std::max<size_t>(prices.size(), 1));
  return std::max({step, (room + most - 1) / most, uint64_t{1}});
}

}  // namespace

std::vector<size_t> choose_prices(const std::vector<Prices>& prices, uint64_t most_bytes) {
  uint64_t room = most_bytes;
  for (const Prices& of_matrix : prices) room -= least_bytes(of_matrix);
  const uint64_t step = step_of(prices, room);
  const auto n_steps = static_cast<size_t>(room / step);
  // sums[s]: the least divergence of the matrices so far, with s steps more than the least bytes.
  // A matrix has a price of no steps, so every s can be reached from the one before.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> sums(n_steps + 1, kNever);
  sums[0] = 0;
  std::vector<double> before;
  std::vector<std::vector<uint8_t>> chosen(prices.size());
  const auto steps_of = [&](size_t matrix, size_t place) {
    const uint64_t more = prices[matrix][place].bytes - least_bytes(prices[matrix]);
    return static_cast<size_t>(std::min<uint64_t>((more + step - 1) / step, n_steps + 1));
  };
  for (size_t i = 0; i < prices.size(); ++i) {
    before.assign(n_steps + 1, kNever);
    before.swap(sums);
    chosen[i].assign(n_steps + 1, 0);
    for (size_t place = 0; place < prices[i].size(); ++place) {
      const size_t n = steps_of(i, place);
      for (size_t s = n; s <= n_steps; ++s) {
        const double sum = before[s - n] + prices[i][place].divergence;
        if (sum >= sums[s]) continue;
        sums[s] = sum;
        chosen[i][s] = static_cast<uint8_t>(place);
      }
    }
  }
  auto at = static_cast<size_t>(std::min_element(sums.begin(), sums.end()) - sums.begin());
  std::vector<size_t> places(prices.size());
  for (size_t i = prices.size(); i-- > 0;) {
    places[i] = chosen[i][at];
    at -= steps_of(i, places[i]);
  }
  return places;
}

}  // namespace cria::converter
