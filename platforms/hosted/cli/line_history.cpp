#include "platforms/hosted/cli/line_history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/terminal.h"
#include "platforms/hosted/cli/input_text.h"

namespace cria::hosted {
namespace {

constexpr size_t kMostLines = 1000;
constexpr size_t kMostBytes = size_t{1} << 20;

std::string escaped(const std::string& line) {
  std::string text;
  for (const char c : line) {
    if (c == '\\') text += "\\\\";
    if (c == '\n') text += "\\n";
    if (c != '\\' && c != '\n') text += c;
  }
  return text;
}

std::string unescaped(const std::string& text) {
  std::string line;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_escape = text[i] == '\\' && i + 1 < text.size();
    if (is_escape) ++i;
    line += is_escape && text[i] == 'n' ? '\n' : text[i];
  }
  return line;
}

// The newest lines that the limits allow.
void bound(std::vector<std::string>* lines) {
  size_t n_bytes = 0;
  size_t begin = lines->size();
  while (begin > 0 && lines->size() - begin < kMostLines) {
    n_bytes += escaped((*lines)[begin - 1]).size() + 1;
    if (n_bytes > kMostBytes) break;
    --begin;
  }
  lines->erase(lines->begin(), lines->begin() + static_cast<std::ptrdiff_t>(begin));
}

std::vector<std::string> read_lines(const std::string& path) {
  struct stat status = {};
  // A link to nowhere is no history yet either.
  if (::stat(path.c_str(), &status) != 0 && errno == ENOENT) return {};
  const std::string text = read_regular_file(path, kMostBytes, "move it away");
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(unescaped(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  bound(&lines);
  return lines;
}

// Makes the file if it is not there, and it or what was there only the user's.
void make_private(const std::string& path) {
  constexpr mode_t kUserOnly = 0600;
  const int file =
      ::open(path.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, kUserOnly);
  if (file < 0) throw_system_error(errno, path, "cannot open");
  const int error_number = ::fchmod(file, kUserOnly) == 0 ? 0 : errno;
  ::close(file);
  if (error_number != 0) throw_system_error(error_number, path, "cannot make it private");
}

}  // namespace

std::string history_path() {
  constexpr const char* kName = "/cria/history";
  const char* const state = std::getenv("XDG_STATE_HOME");
  if (state != nullptr && state[0] == '/') return std::string(state) + kName;
  const char* const home = std::getenv("HOME");
  if (home == nullptr || home[0] != '/') return {};
  return std::string(home) + "/.local/state" + kName;
}

LineHistory::LineHistory(const std::string& path) : path_(path) {
  if (path_.empty()) return;
  try {
    lines_ = read_lines(path_);
  } catch (const ProgramError& error) {
    give_up(error.what());
  }
}

void LineHistory::give_up(const std::string& why) {
  print_notice("cria: warning: no history is kept: " + why);
  path_.clear();
}

void LineHistory::add(const std::string& line) {
  if (line.empty() || (!lines_.empty() && lines_.back() == line)) return;
  try {
    if (!path_.empty()) lines_ = read_lines(path_);
    lines_.push_back(line);
    bound(&lines_);
    if (!path_.empty()) write();
  } catch (const ProgramError& error) {
    give_up(error.what());
  } catch (const OutputError& error) {
    give_up(error.what());
  }
}

void LineHistory::write() const {
  std::error_code ignored;  // what is missing then shows when the file is opened
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  make_private(path_);
  std::string text;
  for (const std::string& line : lines_) text += escaped(line) + "\n";
  OutputFile file(path_, InPlace::kNever);
  file.append(text.data(), text.size());
  file.commit();
}

}  // namespace cria::hosted
