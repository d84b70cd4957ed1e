// How a checkpoint's texts become embeddings, as the files of sentence-transformers beside it say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "quant/format/format.h"

namespace cria::converter {

struct EmbeddingModules {
  format::Pooling pooling;
  bool is_unit;  // embeddings get the length 1
};

// Nothing: the folder has no modules.json, or none that pools. Throws ProgramError for modules and
// poolings that would change results and are not read; d_model is what the config says, where it
// says it.
[[nodiscard]] std::optional<EmbeddingModules> read_embedding_modules(
    const std::filesystem::path& folder, std::optional<uint32_t> d_model);

}  // namespace cria::converter
