// What LFM2 has of its own in config.json: which layers are short convolutions, and how wide its
// MLP is.
#pragma once

#include <cstdint>
#include <vector>

#include "converter/architecture_table.h"
#include "converter/json_input.h"
#include "quant/format/format.h"

namespace cria::converter {

// Makes short convolutions of those layers, all of them attention, that the config says; of none
// where the architecture has no such layers. Throws ProgramError.
void read_convolutions(const JsonObject& config, const ArchitectureRow& row,
                       std::vector<format::LayerKind>* layers);

// The width of a dense LFM2's MLP.
[[nodiscard]] uint32_t read_lfm2_width(const JsonObject& config, const ArchitectureRow& row);

}  // namespace cria::converter
