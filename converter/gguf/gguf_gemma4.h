// What GGUF files of Gemma 4 say in another way than others: values that differ among layers.
#pragma once

#include "converter/config_import.h"
#include "converter/gguf/gguf_config.h"

namespace cria::converter {

// Adds to config what config.json has of heads, MLPs, experts, per-layer embeddings and RoPE, and
// to names what the file calls it. The config has what all files say alike, and layer_types.
void add_gemma4(const JsonObject& metadata, const GgufTensorFacts& facts, Json* config,
                KeyNames* names);

}  // namespace cria::converter
