// The format of each matrix, so that the model's output suffers least at so many bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cria::converter {

// A matrix in one of the formats that it may have.
struct FormatPrice {
  uint64_t bytes;
  double divergence;
};

// Which price each matrix pays, places in prices[i]: of all that cost at most most_bytes together
// those of the least sum of divergences; of equal ones the cheapest. Bytes count in steps that all
// sizes have in common; where there would be more than kMostPriceSteps of them, or kMostPlaces of
// them times matrices, sizes are rounded up to larger steps. The least bytes of all matrices are no
// more than most_bytes, and every matrix has 1 to 256 prices.
[[nodiscard]] std::vector<size_t> choose_prices(const std::vector<std::vector<FormatPrice>>& prices,
                                                uint64_t most_bytes);

inline constexpr uint64_t kMostPriceSteps = uint64_t{1} << 17;
inline constexpr uint64_t kMostPlaces = uint64_t{1} << 26;

}  // namespace cria::converter
