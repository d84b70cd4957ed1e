#include "tests/support/folders.h"

#include <cstdlib>
#include <stdexcept>

namespace cria::test {
namespace {

namespace fs = std::filesystem;

fs::path folder_above_program() {
  for (fs::path folder = fs::read_symlink("/proc/self/exe"); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (fs::exists(folder / "models/demo/config.json")) return folder;
  }
  throw std::runtime_error("set CRIA_SOURCE_DIR to the repository: it is not above this program");
}

}  // namespace

fs::path source_folder() {
  const char* const folder = std::getenv("CRIA_SOURCE_DIR");
  return folder != nullptr ? fs::path(folder) : folder_above_program();
}

fs::path golden_folder(const std::string& name) {
  return source_folder() / "tests/data/golden" / name;
}

fs::path demo_folder() { return source_folder() / "models/demo"; }

std::optional<fs::path> reference_folder() {
  const char* const shared = std::getenv("CRIA_SHARED");
  if (shared == nullptr || !fs::is_directory(fs::path(shared) / "reference")) return {};
  return fs::path(shared) / "reference";
}

}  // namespace cria::test
