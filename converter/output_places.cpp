#include "converter/output_places.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "converter/error.h"
#include "converter/input_file.h"
#include "converter/memory_size.h"
#include "converter/report.h"
#include "converter/side_files.h"
#include "quant/format/format.h"

namespace cria::converter {
namespace {

namespace fs = std::filesystem;

// Where a file is or would be made.
struct Place {
  fs::path folder;
  fs::path name;
};

bool is_one_entry(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error);
}

// Follows links as hosted::OutputFile does: from folder to folder, also to a name that nothing has.
Place place_of(fs::path path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  Place place;
  for (int n_links = 0; n_links <= kMostLinks; ++n_links) {
    std::error_code error;
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    place.folder = fs::canonical(folder, error);
    if (error) place.folder = folder;
    place.name = path.filename();
    const fs::path link = fs::read_symlink(place.folder / place.name, error);
    if (error) break;
    path = place.folder / link;
  }
  return place;
}

// Whether two paths name one file, which need not be there yet.
bool is_one_file(const fs::path& a, const fs::path& b) {
  if (is_one_entry(a, b)) return true;
  const Place place_a = place_of(a);
  const Place place_b = place_of(b);
  return place_a.name == place_b.name && is_one_entry(place_a.folder, place_b.folder);
}

// Whether path, links followed, is in folder or below, or one of folder's entries leads to it.
bool belongs_to(const fs::path& path, const fs::path& folder) {
  for (fs::path above = place_of(path).folder; !above.empty(); above = above.parent_path()) {
    if (is_one_entry(above, folder)) return true;
    if (above == above.parent_path()) break;
  }
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_one_entry(entry->path(), path)) return true;
  }
  return false;
}

// The first bytes of a file.
std::string beginning_of(const fs::path& path, size_t n_bytes) {
  const InputFile file(path);
  std::string bytes(memory_size(std::min<uint64_t>(n_bytes, file.size_bytes())), '\0');
  file.read(0, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

bool is_model(const fs::path& path) {
  const std::string bytes = beginning_of(path, sizeof(format::kMagic));
  return bytes.size() == sizeof(format::kMagic) &&
         std::memcmp(bytes.data(), format::kMagic, sizeof(format::kMagic)) == 0;
}

bool is_report(const fs::path& path) {
  return begins_as_report(beginning_of(path, kReportBeginningBytes));
}

struct Output {
  fs::path path;
  bool (*is_own)(const fs::path& path);  // whether a file is one of ours
  const char* what;
};

[[noreturn]] void refuse_place(const fs::path& path, const std::string& problem) {
  throw ProgramError(ExitCode::kUsage, path.string() + ": " + problem);
}

// What is there and no regular file hosted::OutputFile refuses.
void check_replaced(const Output& output, const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || !fs::is_regular_file(output.path, error) ||
      !belongs_to(output.path, folder)) {
    return;
  }
  if (output.is_own(output.path)) return;
  refuse_place(output.path, std::string("is a file of the checkpoint's folder, not a ") +
                                output.what +
                                " that cria-convert made; choose another name or remove it");
}

}  // namespace

void check_outputs(const Options& options, const Checkpoint& checkpoint) {
  std::vector<Output> outputs = {{options.output, is_model, "model file"}};
  if (options.report) outputs.push_back({*options.report, is_report, "report"});
  const std::vector<fs::path> inputs = checkpoint.inputs();
  for (const Output& output : outputs) {
    for (const fs::path& input : inputs) {
      if (!is_one_file(output.path, input)) continue;
      refuse_place(output.path, "is a part of the checkpoint; choose another");
    }
    if (options.calibration && options.calibration->file &&
        is_one_file(output.path, *options.calibration->file)) {
      refuse_place(output.path, "is the file that --calibration names; choose another");
    }
  }
  if (options.report && is_one_file(*options.report, options.output)) {
    refuse_place(options.output, "is named by both -o and --report");
  }
  for (const Output& output : outputs) check_replaced(output, checkpoint.guarded_folder());
}

}  // namespace cria::converter
