// What layers of Gemma 4 have that others do not: heads of two widths, keys and values of earlier
// layers, per-layer embeddings, experts beside an MLP.
#pragma once

#include <vector>

#include "converter/architecture_table.h"
#include "converter/json_input.h"
#include "quant/format/format.h"

namespace cria::converter {

// Completes layers of Gemma 4, whose experts have been read; leaves others as they are. Throws
// ProgramError for what a model file cannot hold.
void read_gemma4(const JsonObject& config, const ArchitectureRow& row, format::ModelScalars* model,
                 std::vector<format::LayerKind>* layers);

}  // namespace cria::converter
