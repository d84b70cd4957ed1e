// The heads of latent attention, as DeepSeek's configs name them.
#pragma once

#include "converter/json_input.h"
#include "quant/format/format.h"

namespace cria::converter {

// Fills what latent attention has of fields, but for table and factor of RoPE. Throws ProgramError.
void read_latent_heads(const JsonObject& config, format::LayerKind* kind);

}  // namespace cria::converter
