// Model files made from a config alone, with random weights: for tests that need a shape or a
// number format, not a checkpoint.
#pragma once

#include <cstdint>
#include <span>

#include "quant/model/model_config.h"
#include "quant/numbers/number_formats.h"
#include "tests/support/model_files.h"

namespace cria::test {

// A valid file without tokenizer, chat template and metadata: the data section is the last, so that
// the file ends with its last tensor. Weights follow from seed; compression is the config's.
[[nodiscard]] Bytes build_model(const Config& config, uint32_t seed);
// With these formats of the tensors, which the config counts.
[[nodiscard]] Bytes build_model(const Config& config, std::span<const MatrixFormat> formats,
                                uint32_t seed);

}  // namespace cria::test
