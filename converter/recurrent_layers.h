// Layers that keep a state of fixed size in place of keys and values: which they are, and their
// sizes.
#pragma once

#include <vector>

#include "converter/architecture_table.h"
#include "converter/json_input.h"
#include "quant/format/format.h"

namespace cria::converter {

// Puts the delta rule or state spaces into the layers that have them in place of attention. Throws
// ProgramError for sizes that a model file cannot hold.
void read_recurrences(const JsonObject& config, const ArchitectureRow& row, uint32_t d_model,
                      std::vector<format::LayerKind>* layers);

}  // namespace cria::converter
