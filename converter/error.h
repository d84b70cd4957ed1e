// How a conversion fails and how its messages show text of a checkpoint: as every program here.
#pragma once

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/shown_text.h"

namespace cria::converter {

using hosted::ExitCode;
using hosted::printable;
using hosted::ProgramError;
using hosted::shown;

}  // namespace cria::converter
