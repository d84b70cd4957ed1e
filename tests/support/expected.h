// What a folder of reference checkpoints says that its model computes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace cria::test {

// prompt and greedy continuation of an expected.json.
struct Expected {
  std::vector<uint32_t> prompt;
  std::vector<uint32_t> greedy;
  // How far logits may be from the reference's, of 1 + |logit|: it is no more exact than it is by
  // itself, when weights move by their last bit.
  double tolerance;
};
[[nodiscard]] Expected read_expected(const std::filesystem::path& folder);

}  // namespace cria::test
