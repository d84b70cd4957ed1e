// A small model of each way in which an architecture is not Llama, for tests: configs whose numbers
// are chosen so that with the weights of build_model attention is not the same everywhere.
#pragma once

#include <string>
#include <vector>

#include "converter/config_parts.h"
#include "quant/numbers/number_formats.h"

namespace cria::test {

struct NearLlama {
  std::string name;
  ConfigParts config;
  // The same without what it is named for: of the same tensors, or of fewer.
  ConfigParts without;
};

[[nodiscard]] std::vector<NearLlama> near_llamas(MatrixFormat matrix_format);

}  // namespace cria::test
