#include "tests/support/model_files.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

#include "converter/convert.h"

namespace cria::test {
namespace {

namespace fs = std::filesystem;

struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "cria-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create " + name);
    path = name;
  }
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

Bytes convert_folder(const fs::path& folder, const ConvertRequest& request) {
  converter::Options options;
  options.model = folder;
  options.output = temporary_folder() / "converted.cria";
  options.weights = request.weights;
  options.group_size = request.group_size;
  options.scales = request.scales;
  options.compression = request.compression;
  options.tokenizer =
      request.tokenizer ? converter::TokenizerChoice::kRequired : converter::TokenizerChoice::kNone;
  if (!request.chat_template.empty()) {
    options.chat_template = {format::kChatKindFile, request.chat_template};
  }
  options.verbosity = converter::Verbosity::kQuiet;
  converter::Progress progress(options.verbosity);
  static_cast<void>(converter::convert(options, &progress));
  Bytes bytes = read_file(options.output);
  fs::remove(options.output);
  return bytes;
}

}  // namespace cria::test
