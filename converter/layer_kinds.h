// Which layers of a checkpoint attend to a sliding window, and which are without RoPE.
#pragma once

#include <vector>

#include "converter/architecture_table.h"
#include "converter/json_input.h"
#include "quant/format/format.h"

namespace cria::converter {

// The RoPE table of layers with a window, where the architecture has one for them.
inline constexpr uint8_t kWindowTable = 1;

// The kinds of n_layers layers that are like this one: with the windows and without the RoPE that
// the config says. Throws ProgramError for layers of a kind that is not read.
[[nodiscard]] std::vector<format::LayerKind> read_layers(const JsonObject& config,
                                                         const ArchitectureRow& row,
                                                         const format::LayerKind& like,
                                                         uint32_t n_layers);

}  // namespace cria::converter
