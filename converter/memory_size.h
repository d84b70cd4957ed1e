// Sizes of a checkpoint as this machine can hold them: on 32 bits one may ask for more than there
// is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "converter/error.h"

namespace cria::converter {

// n, or an error of the input where it does not fit.
[[nodiscard]] inline size_t memory_size(uint64_t n) {
  if (!std::in_range<size_t>(n)) {
    throw ProgramError(ExitCode::kInvalidInput,
                       "the checkpoint has a tensor of " + std::to_string(n) +
                           " bytes or values; convert it on a 64-bit machine");
  }
  return static_cast<size_t>(n);
}

}  // namespace cria::converter
