// Which layers of a checkpoint attend to a sliding window, and which are without RoPE.
#pragma once

#include "converter/architecture_table.h"
#include "converter/json_input.h"
#include "quant/format.h"

namespace cria::converter {

inline constexpr const char* kNoRopeLayers = "no_rope_layers";

// Fill what the config says of it; model has the other sizes. Throw ProgramError for layers of a
// kind that the runtime has not, and for a pattern that the format cannot tell. The window may
// depend on RoPE, which is read before it.
void read_no_rope(const JsonObject& config, const ArchitectureRow& row, format::ModelConfig* model);
void read_window(const JsonObject& config, const ArchitectureRow& row, format::ModelConfig* model);

}  // namespace cria::converter
