#include "tests/fuzz/folder_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

namespace cria::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "--- ";

struct OwnFolder {
  fs::path path;
  OwnFolder() {
    const bool has_memory =
        std::getenv("TMPDIR") == nullptr && ::access("/dev/shm", W_OK | X_OK) == 0;
    const fs::path where = has_memory ? fs::path("/dev/shm") : fs::temp_directory_path();
    std::string name = (where / "cria-fuzz-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create " + name);
    path = name;
  }
  ~OwnFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
};

}  // namespace

std::vector<InputPart> split_parts(std::string_view input) {
  std::vector<InputPart> parts;
  bool at_line_start = true;
  while (!input.empty()) {
    if (at_line_start && input.starts_with(kMark)) {
      const size_t end = std::min(input.find('\n'), input.size());
      parts.push_back({std::string(input.substr(kMark.size(), end - kMark.size())), ""});
      input.remove_prefix(std::min(end + 1, input.size()));
      continue;
    }
    const size_t end = input.find('\n');
    const size_t n = end == std::string_view::npos ? input.size() : end + 1;
    if (!parts.empty()) parts.back().bytes += input.substr(0, n);
    input.remove_prefix(n);
    at_line_start = true;
  }
  for (InputPart& part : parts) {
    if (part.bytes.ends_with('\n')) part.bytes.pop_back();
  }
  return parts;
}

std::string join_parts(const std::vector<InputPart>& parts) {
  std::string input;
  for (const InputPart& part : parts) {
    input += kMark;
    input += part.name + "\n" + part.bytes + "\n";
  }
  return input;
}

std::string_view part_named(const std::vector<InputPart>& parts, std::string_view name) {
  for (const InputPart& part : parts) {
    if (part.name == name) return part.bytes;
  }
  return "";
}

const fs::path& memory_folder() {
  static const OwnFolder folder;
  return folder.path;
}

void write_bytes(const fs::path& path, std::string_view bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0) throw std::runtime_error("cannot create " + path.string());
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), bytes.size());
    if (n <= 0) throw std::runtime_error("cannot write " + path.string());
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  ::close(file);
}

}  // namespace cria::fuzz
