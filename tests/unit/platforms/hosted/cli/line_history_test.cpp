// The history of lines in its file, whatever the file is.
#include "platforms/hosted/cli/line_history.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/model_files.h"

namespace cria::hosted {
namespace {

namespace fs = std::filesystem;

fs::path fresh_folder() {
  const fs::path folder = test::temporary_folder() / "history";
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

unsigned mode_of(const fs::path& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 0777;
}

TEST(LineHistory, LinesComeBackAndTheFileIsPrivate) {
  const fs::path path = fresh_folder() / "not" / "there" / "history";
  {
    LineHistory history(path);
    EXPECT_TRUE(history.lines().empty());
    for (const char* line : {"one", "one", "two\nlines", "back\\slash \\n", "\xE4\xBD\xA0"}) {
      history.add(line);
    }
  }
  EXPECT_EQ(mode_of(path), 0600u);
  const std::vector<std::string> want = {"one", "two\nlines", "back\\slash \\n", "\xE4\xBD\xA0"};
  EXPECT_EQ(LineHistory(path).lines(), want);
  EXPECT_EQ(content(path), "one\ntwo\\nlines\nback\\\\slash \\\\n\n\xE4\xBD\xA0\n");
}

TEST(LineHistory, AFileThatOthersCouldReadBecomesPrivate) {
  const fs::path path = fresh_folder() / "history";
  std::ofstream(path) << "old\n";
  ::chmod(path.c_str(), 0644);
  LineHistory(path).add("new");
  EXPECT_EQ(mode_of(path), 0600u);
  EXPECT_EQ(content(path), "old\nnew\n");
}

TEST(LineHistory, TwoProgramsLoseNothing) {
  const fs::path path = fresh_folder() / "history";
  LineHistory one(path);
  LineHistory other(path);
  one.add("a");
  other.add("b");
  one.add("c");
  EXPECT_EQ(content(path), "a\nb\nc\n");
}

TEST(LineHistory, ItHasLimits) {
  const fs::path path = fresh_folder() / "history";
  std::string many;
  for (int i = 0; i < 1500; ++i) many += std::to_string(i) + "\n";
  std::ofstream(path) << many;
  LineHistory history(path);
  EXPECT_EQ(history.lines().size(), 1000u);
  EXPECT_EQ(history.lines().front(), "500");
  history.add("last");
  EXPECT_EQ(LineHistory(path).lines().size(), 1000u);
  // Long lines: the oldest go.
  for (int i = 0; i < 3; ++i)
    history.add(std::string(size_t{400} << 10, static_cast<char>('a' + i)));
  EXPECT_LE(fs::file_size(path), size_t{1} << 20);
  EXPECT_EQ(LineHistory(path).lines().size(), 2u);
}

// One warning that ends so, and it is left alone.
void expect_left_alone(const fs::path& path, const std::string& end) {
  testing::internal::CaptureStderr();
  LineHistory history(path);
  history.add("one");
  history.add("two");
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
  EXPECT_NE(told.find("no history is kept: " + path.string()), std::string::npos) << told;
  EXPECT_TRUE(told.ends_with(end + "\n")) << told;
  EXPECT_EQ(history.lines().back(), "two");
}

TEST(LineHistory, WhatCannotBeAHistoryIsLeftAlone) {
  const fs::path folder = fresh_folder();
  const fs::path path = folder / "history";
  fs::create_directory(path);
  expect_left_alone(path, ": is a folder; move it away");
  EXPECT_TRUE(fs::is_directory(path));
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_left_alone(path, ": is a named pipe; move it away");
  fs::remove(path);
  std::ofstream(path) << std::string((size_t{1} << 20) + 1, 'x');
  expect_left_alone(path, "bytes that are read; move it away");
  EXPECT_EQ(fs::file_size(path), (size_t{1} << 20) + 1);
  fs::remove(path);
  fs::create_symlink("nowhere/history", path);
  expect_left_alone(path, "");
  fs::remove(path);
  fs::create_symlink("history", path);  // to itself
  expect_left_alone(path, "");
  EXPECT_TRUE(fs::is_symlink(path));
  expect_left_alone("/dev/null/history", "");
}

TEST(LineHistory, ALinkIsFollowed) {
  const fs::path folder = fresh_folder();
  fs::create_symlink("elsewhere", folder / "history");
  LineHistory(folder / "history").add("one");
  EXPECT_TRUE(fs::is_symlink(folder / "history"));
  EXPECT_EQ(content(folder / "elsewhere"), "one\n");
}

TEST(LineHistory, AnyBytesAreAHistory) {
  const fs::path path = fresh_folder() / "history";
  std::ofstream(path, std::ios::binary) << std::string("\0\x1b]0;t\x07\n\n\\\n\xff\xfe\\", 14);
  LineHistory history(path);
  EXPECT_EQ(history.lines().size(), 3u);
  history.add("one");
  EXPECT_EQ(LineHistory(path).lines(), history.lines());
}

TEST(LineHistory, WithoutAFileItIsOnlyRemembered) {
  LineHistory history("");
  history.add("one");
  EXPECT_EQ(history.lines().size(), 1u);
}

// A variable of the environment that is as it was when the test ends.
class Variable {
 public:
  explicit Variable(const char* name) : name_(name) {
    if (const char* const value = std::getenv(name)) before_ = value;
  }
  ~Variable() {
    if (before_) {
      set(before_->c_str());
    } else {
      unset();
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

  void set(const char* value) const { ::setenv(name_, value, 1); }
  void unset() const { ::unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(LineHistory, TheFileIsWhereStateIsKept) {
  const Variable state("XDG_STATE_HOME");
  const Variable home("HOME");
  state.set("/state");
  EXPECT_EQ(history_path(), "/state/cria/history");
  state.set("relative");
  home.set("/home/somebody");
  EXPECT_EQ(history_path(), "/home/somebody/.local/state/cria/history");
  home.unset();
  EXPECT_EQ(history_path(), "");
}

}  // namespace
}  // namespace cria::hosted
