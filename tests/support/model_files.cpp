#include "tests/support/model_files.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "converter/convert.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

struct TemporaryFolder {
  fs::path path = fs::temp_directory_path() / ("cria-test-" + std::to_string(getpid()));
  TemporaryFolder() { fs::create_directories(path); }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
};

}  // namespace

fs::path temporary_folder() {
  static const TemporaryFolder folder;
  return folder.path;
}

Bytes read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  Bytes bytes(file ? static_cast<size_t>(file.tellg()) : 0);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return bytes;
}

std::vector<float> read_floats(const fs::path& path) {
  const Bytes bytes = read_file(path);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

Bytes convert_folder(const fs::path& folder, const ConvertWish& wish) {
  converter::Options options;
  options.model = folder;
  options.output = temporary_folder() / "converted.cria";
  options.weights = wish.weights;
  options.group_size = wish.group_size;
  options.scales = wish.scales;
  options.compression = wish.compression;
  options.tokenizer =
      wish.tokenizer ? converter::TokenizerWish::kRequired : converter::TokenizerWish::kNone;
  options.verbosity = converter::Verbosity::kQuiet;
  converter::Progress progress(options.verbosity);
  static_cast<void>(converter::convert(options, &progress));
  Bytes bytes = read_file(options.output);
  fs::remove(options.output);
  return bytes;
}

std::optional<fs::path> reference_folder() {
  const char* shared = std::getenv("CRIA_SHARED");
  if (shared == nullptr || !fs::is_directory(fs::path(shared) / "reference")) return {};
  return fs::path(shared) / "reference";
}

fs::path golden_folder(const std::string& name) {
  return fs::path(CRIA_SOURCE_DIR) / "tests/data/golden" / name;
}

fs::path made_golden_folder(const std::string& name) {
  const char* made = std::getenv("CRIA_TEST_DATA");
  if (made == nullptr) throw std::runtime_error("CRIA_TEST_DATA is not set; ctest sets it");
  return fs::path(made) / "golden" / name;
}

fs::path demo_folder() { return fs::path(CRIA_SOURCE_DIR) / "models/demo"; }

Expected read_expected(const fs::path& folder) {
  std::ifstream file(folder / "expected.json");
  const auto json = nlohmann::json::parse(file);
  return {json.at("prompt").get<std::vector<uint32_t>>(),
          json.at("greedy").get<std::vector<uint32_t>>()};
}

}  // namespace cria::test
