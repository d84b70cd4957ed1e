#include "converter/side_files.h"

#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "converter/error.h"
#include "converter/input_file.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kSideFiles); ++i) {
    if (static_cast<size_t>(kSideFiles[i].which) != i) return false;
  }
  return true;
}
static_assert(in_order());

const SideFileKind& kind_of(SideFile which) { return kSideFiles[static_cast<size_t>(which)]; }

}  // namespace

fs::path side_file_path(const fs::path& folder, SideFile which) {
  return folder / kind_of(which).name;
}

bool entry_exists(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (status.type() == fs::file_type::none) {
    throw ProgramError(ExitCode::kIo, path.string() + ": cannot be looked up: " + error.message());
  }
  return fs::exists(status);
}

bool has_side_file(const fs::path& folder, SideFile which) {
  return entry_exists(side_file_path(folder, which));
}

std::string read_side_file(const fs::path& folder, SideFile which) {
  return read_small_file(side_file_path(folder, which), kind_of(which).max_bytes);
}

std::string read_template_file(const fs::path& path) {
  return read_small_file(path, kMaxTemplateBytes);
}

Json read_side_json(const fs::path& folder, SideFile which) {
  return parse_json(read_side_file(folder, which), side_file_path(folder, which).string(),
                    kind_of(which).max_values);
}

}  // namespace cria::converter
