#include <system_error>

#include "converter/checkpoint.h"
#include "converter/error.h"
#include "converter/hugging_face_folder.h"

namespace cria::converter {

namespace fs = std::filesystem;

std::unique_ptr<Checkpoint> open_checkpoint(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::none) {
    throw ProgramError(ExitCode::kIo, path.string() + ": cannot be looked up: " + error.message() +
                                          "; give a checkpoint's folder");
  }
  if (!fs::exists(status)) {
    throw ProgramError(ExitCode::kInvalidInput,
                       path.string() + ": no such folder; give a checkpoint's folder");
  }
  if (!fs::is_directory(status)) {
    throw ProgramError(ExitCode::kInvalidInput,
                       path.string() + ": is a file; only Hugging Face folders can be converted");
  }
  return std::make_unique<HuggingFaceFolder>(path);
}

}  // namespace cria::converter
