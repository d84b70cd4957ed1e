// Which matrix of a test's model has which format.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "converter/config_parts.h"
#include "quant/model/model_layout.h"

namespace cria::test {

// Counts every matrix that the config's other parts imply as one of this format.
void set_all_formats(ConfigParts* config, MatrixFormat matrix_format);
// Counts the matrices as of these formats, one for each tensor in the file's order.
void set_formats(ConfigParts* config, std::span<const MatrixFormat> formats);

// Whether kinds and layers are such that tensors follow from them, whatever the counts.
[[nodiscard]] bool has_tensors(const Config& config);

// Makes the counts hold again after layers or kinds changed: those of a role and a kind are those
// of its first format, or of the config's first one.
void mend_counts(ConfigParts* config);

// A format for each tensor, as the config counts them: the formats of a role and a kind in the
// order of kMatrixFormats, from the first layer on.
[[nodiscard]] std::vector<MatrixFormat> formats_of(const Config& config);

// The tensor at place index of formats_of.
[[nodiscard]] TensorSpec spec_at(const Config& config, uint32_t index);
// Bytes of the tensors before place index, each rounded up to 64: where it lies in a data section
// without compression.
[[nodiscard]] uint64_t offset_of(const Config& config, uint32_t index);

}  // namespace cria::test
