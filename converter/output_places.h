// Where a conversion may write: not over its checkpoint, and not two files into one place.
#pragma once

#include "converter/checkpoint.h"
#include "converter/options.h"

namespace cria::converter {

// Throws ProgramError (kUsage) when an output, links followed, is a file that a conversion reads
// whether it is there or not; when -o and --report are one file, which need not be there yet; and
// when an output would replace a file in the checkpoint's folder or below that cria-convert did not
// make. Throws as InputFile does when such a file cannot be read.
void check_outputs(const Options& options, const Checkpoint& checkpoint);

}  // namespace cria::converter
