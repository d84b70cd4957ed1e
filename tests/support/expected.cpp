#include "tests/support/expected.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace cria::test {
namespace {

// Float rounding of two implementations of the same sums; most are below 6e-5.
constexpr double kLeastTolerance = 1e-4;
constexpr double kMostTolerance = 2e-4;

}  // namespace

Expected read_expected(const std::filesystem::path& folder) {
  std::ifstream file(folder / "expected.json");
  const auto json = nlohmann::json::parse(file);
  return {json.at("prompt").get<std::vector<uint32_t>>(),
          json.at("greedy").get<std::vector<uint32_t>>(),
          std::clamp(json.value("noise_max_abs_diff", 0.0), kLeastTolerance, kMostTolerance)};
}

}  // namespace cria::test
