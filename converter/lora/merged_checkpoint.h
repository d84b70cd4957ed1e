// A checkpoint with adapters merged into its matrices, in f32 as they are read.
#pragma once

#include <memory>
#include <vector>

#include "converter/checkpoint.h"
#include "converter/lora/lora_adapter.h"

namespace cria::converter {

// base as it would be with the adapters' changes added, in their order; base itself where there are
// none. Throws ProgramError where one cannot be read; its open_weights where one changes what the
// checkpoint does not have.
[[nodiscard]] std::unique_ptr<Checkpoint> with_adapters(std::unique_ptr<Checkpoint> base,
                                                        const std::vector<LoraRequest>& requests);

}  // namespace cria::converter
