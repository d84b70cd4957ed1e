// Which layers of a checkpoint have experts, how many, and how a router chooses among them.
#pragma once

#include <vector>

#include "converter/architecture_table.h"
#include "converter/json_input.h"
#include "quant/format/format.h"

namespace cria::converter {

// Gives experts to those of layers, whose feed-forward is that of dense ones, that the config says;
// to none where the architecture has no experts. Throws ProgramError.
void read_experts(const JsonObject& config, const ArchitectureRow& row,
                  std::vector<format::LayerKind>* layers);

}  // namespace cria::converter
