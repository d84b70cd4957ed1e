#include "tests/support/folders.h"

#include <cstdlib>
#include <stdexcept>

namespace cria::test {
namespace {

namespace fs = std::filesystem;

// The folder above this program that holds a path.
fs::path folder_above(const char* held) {
  for (fs::path folder = fs::read_symlink("/proc/self/exe"); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (fs::exists(folder / held)) return folder;
  }
  throw std::runtime_error(std::string(held) + " is not above this program");
}

}  // namespace

fs::path source_folder() {
  const char* const folder = std::getenv("CRIA_SOURCE_DIR");
  return folder != nullptr ? fs::path(folder) : folder_above("models/demo/config.json");
}

fs::path golden_folder(const std::string& name) {
  return source_folder() / "tests/data/golden" / name;
}

fs::path made_golden_folder(const std::string& name) {
  const char* const made = std::getenv("CRIA_TEST_DATA");
  const fs::path data =
      made != nullptr ? fs::path(made) : folder_above("data/golden/bad/index.txt") / "data";
  return data / "golden" / name;
}

fs::path demo_folder() { return source_folder() / "models/demo"; }

std::optional<fs::path> reference_folder() {
  const char* const shared = std::getenv("CRIA_SHARED");
  if (shared == nullptr || !fs::is_directory(fs::path(shared) / "reference")) return {};
  return fs::path(shared) / "reference";
}

}  // namespace cria::test
