// A model file's tensors, read without the runtime: for what the runtime is judged by.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "converter/config_parts.h"

namespace cria::test {

struct NaiveTensor {
  uint32_t n_matrices;
  uint32_t rows;  // 1 for vectors
  uint32_t cols;
  std::vector<float> values;  // [n_matrices][rows][cols]

  [[nodiscard]] std::span<const float> row(size_t row, size_t matrix = 0) const {
    return std::span(values).subspan((matrix * rows + row) * cols, cols);
  }
};

class NaiveTensors {
 public:
  // A valid file none of whose chunks is compressed; throws otherwise.
  explicit NaiveTensors(std::span<const uint8_t> file);
  // layer: format::kNone outside the layers. Null: not there.
  [[nodiscard]] const NaiveTensor* find(uint32_t layer, format::TensorRole role) const;
  [[nodiscard]] const ConfigParts& config() const { return config_; }

 private:
  ConfigParts config_;
  std::map<std::pair<uint32_t, format::TensorRole>, NaiveTensor> tensors_;
};

}  // namespace cria::test
