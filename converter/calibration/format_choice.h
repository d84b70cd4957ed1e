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

// Which price each matrix pays: places in prices[i]. All begin with the fewest bytes; then steps
// along the lower convex hull of each, that which takes away the most divergence for its bytes
// first, as long as most_bytes allows: a step that does not fit ends its matrix' way, not the
// others'. Equal steps go in the order of the matrices. The fewest bytes are no more than
// most_bytes, and every matrix has a price.
[[nodiscard]] std::vector<size_t> choose_prices(const std::vector<std::vector<FormatPrice>>& prices,
                                                uint64_t most_bytes);

}  // namespace cria::converter
