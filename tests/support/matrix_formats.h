// Which matrix of a test's model has which format.
#pragma once

#include <cstdint>
#include <vector>

#include "quant/format.h"
#include "quant/model_layout.h"

namespace cria::test {

// Counts every matrix that the config's other fields imply as one of this format.
void set_all_formats(format::ModelConfig* config, MatrixFormat matrix_format);

// Makes the counts hold again after n_layers or flags changed: each role's are those of its first
// format, or of the config's first one.
void mend_counts(format::ModelConfig* config);

// A format for each tensor, as the config counts them: a role's formats in the order of
// kMatrixFormats, from the first layer on.
[[nodiscard]] std::vector<MatrixFormat> formats_of(const format::ModelConfig& config);

// Whether the backend exact alone multiplies matrices of this format.
[[nodiscard]] bool is_for_exact_alone(MatrixFormat f);

// The tensor at place index of formats_of.
[[nodiscard]] TensorSpec spec_at(const format::ModelConfig& config, uint32_t index);
// Bytes of the tensors before place index, each rounded up to 64: where it lies in a data section
// without compression.
[[nodiscard]] uint64_t offset_of(const format::ModelConfig& config, uint32_t index);

}  // namespace cria::test
