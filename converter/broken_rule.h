// A part of a model file that the runtime would refuse.
#pragma once

#include <filesystem>
#include <string>

#include "converter/error.h"

namespace cria::converter {

// Throws ProgramError (kInvalidInput) when wrong, what a check of quant/ answered, is not nullptr.
inline void refuse_if(const std::filesystem::path& folder, const char* what, const char* wrong) {
  if (wrong == nullptr) return;
  throw ProgramError(ExitCode::kInvalidInput,
                     folder.string() + ": " + what + " cannot be converted: " + wrong);
}

}  // namespace cria::converter
