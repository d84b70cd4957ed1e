// A whole conversion: the steps of cria-convert, callable from tests.
#pragma once

#include "converter/options.h"
#include "converter/progress.h"
#include "converter/report.h"

namespace cria::converter {

// Writes options.output, and options.report when it is set. Throws ProgramError; then neither file
// was touched. Without an output it looks at config and tokenizer only and writes nothing.
ConversionReport convert(const Options& options, Progress* progress);

}  // namespace cria::converter
