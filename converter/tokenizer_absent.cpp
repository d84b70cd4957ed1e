// Stands in until converter/tokenizer_import.cpp is there, so that --no-tokenizer links.
#include "converter/error.h"
#include "converter/tokenizer_import.h"

namespace cria::converter {

__attribute__((weak)) ImportedTokenizer import_tokenizer(const std::filesystem::path& folder,
                                                         uint32_t) {
  throw ConvertError(ExitCode::kInvalidInput,
                     folder.string() + ": tokenizers are not read yet; use --no-tokenizer");
}

}  // namespace cria::converter
