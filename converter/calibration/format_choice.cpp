#include "converter/calibration/format_choice.h"

#include <algorithm>

namespace cria::converter {
namespace {

// From one price of a matrix to the next one of its hull.
struct Step {
  size_t matrix;
  size_t to;  // place in its prices
  uint64_t bytes;
  double gain;  // of divergence for a byte
};

double slope(const FormatPrice& from, const FormatPrice& to) {
  return (from.divergence - to.divergence) / static_cast<double>(to.bytes - from.bytes);
}

// Places of the prices on the lower convex hull, bytes rising and divergence falling.
std::vector<size_t> hull_of(const std::vector<FormatPrice>& prices) {
  std::vector<size_t> order(prices.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (prices[a].bytes != prices[b].bytes) return prices[a].bytes < prices[b].bytes;
    return prices[a].divergence < prices[b].divergence;
  });
  std::vector<size_t> hull;
  for (const size_t place : order) {
    const FormatPrice& price = prices[place];
    if (!hull.empty() && price.divergence >= prices[hull.back()].divergence) continue;
    while (hull.size() > 1 && slope(prices[hull.end()[-2]], prices[hull.back()]) <=
                                  slope(prices[hull.back()], price)) {
      hull.pop_back();
    }
    hull.push_back(place);
  }
  return hull;
}

}  // namespace

std::vector<size_t> choose_prices(const std::vector<std::vector<FormatPrice>>& prices,
                                  uint64_t most_bytes) {
  std::vector<size_t> chosen;
  std::vector<Step> steps;
  uint64_t bytes = 0;
  for (size_t i = 0; i < prices.size(); ++i) {
    const std::vector<size_t> hull = hull_of(prices[i]);
    chosen.push_back(hull.front());
    bytes += prices[i][hull.front()].bytes;
    for (size_t k = 1; k < hull.size(); ++k) {
      const FormatPrice& from = prices[i][hull[k - 1]];
      const FormatPrice& to = prices[i][hull[k]];
      steps.push_back({i, hull[k], to.bytes - from.bytes, slope(from, to)});
    }
  }
  // Those of a matrix have falling gains, and keep their order.
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.gain > b.gain; });
  std::vector<bool> is_at_end(prices.size());
  for (const Step& step : steps) {
    if (is_at_end[step.matrix]) continue;
    if (bytes + step.bytes > most_bytes) {
      is_at_end[step.matrix] = true;
      continue;
    }
    bytes += step.bytes;
    chosen[step.matrix] = step.to;
  }
  return chosen;
}

}  // namespace cria::converter
