// How a conversion fails and how its messages show text of a checkpoint: as every program here.
#pragma once

#include <string>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/shown_text.h"

namespace cria::converter {

using hosted::ExitCode;
using hosted::printable;
using hosted::ProgramError;
using hosted::shown;

// Of an input; where is its file.
[[noreturn]] inline void refuse(const std::string& where, const std::string& problem) {
  throw ProgramError(ExitCode::kInvalidInput, where + ": " + problem);
}

}  // namespace cria::converter
