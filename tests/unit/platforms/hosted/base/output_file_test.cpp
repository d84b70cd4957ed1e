// An output file appears whole or not at all, where its path leads.
#include "platforms/hosted/base/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <thread>
#include <vector>

#include "tests/support/patience.h"

namespace cria::hosted {
namespace {

namespace fs = std::filesystem;

// Runs action in a process of its own; gives its status.
int in_child(const std::function<void()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    action();
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

class OutputFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "cria_output_file_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string in_folder(const std::string& name) const { return folder_ + "/" + name; }
  size_t n_files() const {
    const fs::directory_iterator files(folder_);
    return static_cast<size_t>(std::distance(begin(files), end(files)));
  }

  // Runs action as somebody who may not write everything, in a process of its own; its failures are
  // the test's.
  void as_user(const std::function<void()>& action) const {
    constexpr uid_t kNobody = 65534;
    if (::geteuid() == 0) {
      ASSERT_EQ(::chown(folder_.c_str(), kNobody, kNobody), 0);
    }
    const int status = in_child([&] {
      if (::geteuid() == 0 && ::setuid(kNobody) != 0) ::_exit(1);
      action();
      std::fflush(stdout);
      ::_exit(HasFailure() ? 1 : 0);
    });
    EXPECT_EQ(status, 0);
  }

  std::string folder_;
};

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void write_text(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

void put(const std::string& path, const std::string& text, Readers readers = Readers::kOfUmask) {
  OutputFile file(path, InPlace::kWhereNeeded, readers);
  file.append(text.data(), text.size());
  file.commit();
}

void expect_error(OutputError::Kind kind, const std::string& path, const std::string& word,
                  const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << path << ": no error";
  } catch (const OutputError& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_EQ(error.path(), path);
    EXPECT_EQ(std::string(error.what()).rfind(path + ": ", 0), 0u) << error.what();
    EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
  }
}

TEST_F(OutputFileTest, ItAppearsAtCommit) {
  const std::string path = in_folder("out");
  {
    OutputFile file(path, InPlace::kNever);
    file.write(3, bytes_of("abc"));
    file.flush(8);
    EXPECT_FALSE(fs::exists(path));
    file.commit();
    EXPECT_EQ(n_files(), 1u);
  }
  EXPECT_EQ(read_text(path), std::string("\0\0\0abc\0\0", 8));
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(OutputFileTest, WithoutCommitNothingIsLeft) {
  const std::string path = in_folder("out");
  write_text(path, "before");
  {
    OutputFile file(path, InPlace::kWhereNeeded);
    file.append("after", 5);
    EXPECT_EQ(n_files(), 2u);
  }
  EXPECT_EQ(read_text(path), "before");
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(OutputFileTest, ItReplacesWhatWasThereAndLeavesOtherHardLinksAlone) {
  write_text(in_folder("out"), "before");
  fs::create_hard_link(in_folder("out"), in_folder("other"));
  put(in_folder("out"), "after");
  EXPECT_EQ(read_text(in_folder("out")), "after");
  EXPECT_EQ(read_text(in_folder("other")), "before");
  EXPECT_EQ(n_files(), 2u);
}

TEST_F(OutputFileTest, PiecesOfSeveralThreadsComeToTheirPlaces) {
  constexpr size_t kThreads = 4;
  constexpr size_t kPieceBytes = 100000;
  OutputFile file(in_folder("out"), InPlace::kNever);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&file, i] {
      file.write(i * kPieceBytes, bytes_of(std::string(kPieceBytes, static_cast<char>('a' + i))));
    });
  }
  for (std::thread& thread : threads) thread.join();
  file.flush(kThreads * kPieceBytes);
  file.commit();
  std::string want;
  for (size_t i = 0; i < kThreads; ++i) want.append(kPieceBytes, static_cast<char>('a' + i));
  EXPECT_EQ(read_text(in_folder("out")), want);
}

// The process's umask until the end of a test.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  mode_t before_;
};

TEST_F(OutputFileTest, AModeIsKeptAndANewFileHasWhatTheUmaskLeaves) {
  const Umask umask(027);
  put(in_folder("new"), "x");
  EXPECT_EQ(mode_of(in_folder("new")), 0640u);
  for (const mode_t mode : {0600u, 0666u, 0640u, 0755u}) {
    write_text(in_folder("old"), "before");
    ASSERT_EQ(::chmod(in_folder("old").c_str(), mode), 0);
    OutputFile file(in_folder("old"), InPlace::kNever);
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      if (entry.path().extension() != ".tmp") continue;
      EXPECT_EQ(mode_of(entry.path()), mode);
    }
    file.commit();
    EXPECT_EQ(mode_of(in_folder("old")), mode);
  }
}

TEST_F(OutputFileTest, ANewFileIsItsOwnersAloneWhereThatIsAsked) {
  const Umask umask(0);
  put(in_folder("new"), "x", Readers::kOwner);
  EXPECT_EQ(mode_of(in_folder("new")), 0600u);
  // Who shared a file keeps it shared.
  ASSERT_EQ(::chmod(in_folder("new").c_str(), 0640), 0);
  put(in_folder("new"), "y", Readers::kOwner);
  EXPECT_EQ(mode_of(in_folder("new")), 0640u);
}

TEST_F(OutputFileTest, AWriteProtectedFileIsNotReplaced) {
  as_user([&] {
    write_text(in_folder("out"), "before");
    ASSERT_EQ(::chmod(in_folder("out").c_str(), 0400), 0);
    expect_error(OutputError::Kind::kIo, in_folder("out"), "Permission denied",
                 [&] { put(in_folder("out"), "after"); });
    EXPECT_EQ(read_text(in_folder("out")), "before");
  });
}

TEST_F(OutputFileTest, ALinkKeepsPointingToTheFileWhichIsReplaced) {
  fs::create_directory(in_folder("inner"));
  write_text(in_folder("inner/target"), "before");
  fs::create_symlink("inner", in_folder("way"));
  // From the folder of a link to a link, up again, and by an absolute path.
  fs::create_symlink("../first", in_folder("inner/second"));
  fs::create_symlink("inner/target", in_folder("first"));
  fs::create_symlink(in_folder("way/second"), in_folder("link"));
  put(in_folder("link"), "after");
  for (const char* link : {"link", "first", "inner/second"}) {
    EXPECT_TRUE(fs::is_symlink(in_folder(link))) << link;
  }
  EXPECT_FALSE(fs::is_symlink(in_folder("inner/target")));
  EXPECT_EQ(read_text(in_folder("inner/target")), "after");
}

TEST_F(OutputFileTest, ALinkToNothingMakesItsTarget) {
  fs::create_symlink("target", in_folder("link"));
  put(in_folder("link"), "text");
  EXPECT_TRUE(fs::is_symlink(in_folder("link")));
  EXPECT_EQ(read_text(in_folder("target")), "text");
  fs::create_symlink("none/target", in_folder("astray"));
  expect_error(OutputError::Kind::kIo, in_folder("astray"), "No such file",
               [&] { put(in_folder("astray"), "text"); });
  EXPECT_TRUE(fs::is_symlink(in_folder("astray")));
}

TEST_F(OutputFileTest, LinksThatGoInACircleAreAnError) {
  fs::create_symlink("b", in_folder("a"));
  fs::create_symlink("a", in_folder("b"));
  expect_error(OutputError::Kind::kIo, in_folder("a"), "symbolic links",
               [&] { put(in_folder("a"), "text"); });
  EXPECT_EQ(n_files(), 2u);
}

// Whoever can write to the folder must not choose what is written to: the temporary name cannot be
// known, and what has it already is not opened.
TEST_F(OutputFileTest, TheTemporaryNameIsAnotherOneEachTime) {
  std::vector<std::string> names;
  for (int i = 0; i < 3; ++i) {
    OutputFile file(in_folder("out"), InPlace::kNever);
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      names.push_back(entry.path().filename());
    }
  }
  ASSERT_EQ(names.size(), 3u);
  EXPECT_NE(names[0], names[1]);
  EXPECT_NE(names[1], names[2]);
  for (const std::string& name : names) {
    EXPECT_EQ(name.find(std::to_string(::getpid())), std::string::npos) << name;
    EXPECT_EQ(name.size(), std::string("cria-0123456789abcdef.tmp").size()) << name;
  }
}

TEST_F(OutputFileTest, FoldersAreNotWritten) {
  fs::create_directory_symlink(folder_, in_folder("link"));
  for (const std::string& path :
       {folder_, folder_ + "/", in_folder("link"), std::string("/"), std::string(".")}) {
    for (const InPlace in_place : {InPlace::kNever, InPlace::kWhereNeeded}) {
      expect_error(OutputError::Kind::kPath, path, "folder",
                   [&] { OutputFile file(path, in_place); });
    }
  }
  expect_error(OutputError::Kind::kIo, in_folder("none/out"), "No such file",
               [&] { put(in_folder("none/out"), "text"); });
  expect_error(OutputError::Kind::kPath, "output file", "empty", [] { put("", "text"); });
  write_text(in_folder("file"), "before");
  expect_error(OutputError::Kind::kIo, in_folder("file/out"), "Not a directory",
               [&] { put(in_folder("file/out"), "text"); });
  EXPECT_EQ(n_files(), 2u);
}

TEST_F(OutputFileTest, DevicesAndPipesAreWrittenInPlaceOrRefused) {
  const std::string pipe = in_folder("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  fs::create_symlink("/dev/null", in_folder("null"));
  for (const std::string& path : {std::string("/dev/null"), in_folder("null"), pipe}) {
    expect_error(OutputError::Kind::kPath, path, "regular",
                 [&] { OutputFile file(path, InPlace::kNever); });
  }
  put(in_folder("null"), "text");
  EXPECT_TRUE(fs::is_symlink(in_folder("null")));
  std::string got;
  std::thread reader([&] { got = read_text(pipe); });
  put(pipe, std::string(300000, 'x'));
  reader.join();
  EXPECT_EQ(got, std::string(300000, 'x'));
  EXPECT_TRUE(fs::is_fifo(pipe));
  EXPECT_EQ(n_files(), 2u);
}

TEST_F(OutputFileTest, AReaderThatWentAwayIsNoErrorAndAFullDeviceIsOne) {
  remove_temporary_files_on_signals();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  OutputFile file("/dev/fd/" + std::to_string(ends[1]), InPlace::kWhereNeeded);
  EXPECT_FALSE(file.reader_left());
  file.append("text", 4);
  EXPECT_TRUE(file.reader_left());
  file.commit();
  ::close(ends[1]);
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  expect_error(OutputError::Kind::kIo, "/dev/full", "No space left",
               [] { put("/dev/full", "text"); });
}

TEST_F(OutputFileTest, StandardOutputIsWrittenInPlaceByAllItsNames) {
  const std::string path = in_folder("out");
  for (const char* name : {"-", "/dev/stdout", "/proc/self/fd/1"}) {
    const int status = in_child([&] {
      const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(file, STDOUT_FILENO);
      put(name, "one ");
      put(name, "two ");
      ::_exit(::write(STDOUT_FILENO, "three", 5) == 5 ? 0 : 1);
    });
    EXPECT_EQ(status, 0) << name;
    EXPECT_EQ(read_text(path), "one two three") << name;
  }
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(OutputFileTest, NamesAndPathsMayBeAsLongAsTheyCanBe) {
  const std::string longest(NAME_MAX, 'n');
  put(in_folder(longest), "text");
  EXPECT_EQ(read_text(in_folder(longest)), "text");
  // The longest path the system takes: one byte of PATH_MAX is the end.
  std::string path = folder_;
  while (path.size() + 2 < PATH_MAX - 1) {
    const size_t rest = PATH_MAX - 1 - path.size() - 2;
    const std::string part(std::min<size_t>(rest - 1, 200), 'f');
    if (part.empty()) break;
    path += "/" + part;
    ASSERT_EQ(::mkdir(path.c_str(), 0700), 0) << path.size();
  }
  path += "/" + std::string(PATH_MAX - 1 - path.size() - 1, 'o');
  ASSERT_EQ(path.size(), size_t{PATH_MAX - 1});
  put(path, "text");
  EXPECT_EQ(read_text(path), "text");
  expect_error(OutputError::Kind::kIo, path + "x", "too long", [&] { put(path + "x", "text"); });
  expect_error(OutputError::Kind::kIo, in_folder(longest + "n"), "too long",
               [&] { put(in_folder(longest + "n"), "text"); });
}

TEST_F(OutputFileTest, AFolderThatCannotBeWrittenIsAnErrorAndOneThatCannotBeListedIsNone) {
  as_user([&] {
    fs::create_directory(in_folder("closed"));
    ASSERT_EQ(::chmod(in_folder("closed").c_str(), 0500), 0);
    expect_error(OutputError::Kind::kIo, in_folder("closed/out"), "Permission denied",
                 [&] { put(in_folder("closed/out"), "text"); });
    ASSERT_EQ(::chmod(in_folder("closed").c_str(), 0300), 0);
    put(in_folder("closed/out"), "text");
    ASSERT_EQ(::chmod(in_folder("closed").c_str(), 0700), 0);
    EXPECT_EQ(read_text(in_folder("closed/out")), "text");
  });
}

// A limit on file sizes makes a later write fail, whichever it is.
TEST_F(OutputFileTest, AnyWriteThatFailsLeavesTheOldFile) {
  constexpr size_t kWrites = 8;
  constexpr size_t kBytes = 1000;
  write_text(in_folder("out"), "before");
  for (size_t n = 0; n < kWrites; ++n) {
    const int status = in_child([&] {
      remove_temporary_files_on_signals();
      rlimit limit = {};
      limit.rlim_cur = limit.rlim_max = n * kBytes + kBytes / 2;
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(1);
      size_t n_written = 0;
      try {
        OutputFile file(in_folder("out"), InPlace::kNever);
        for (; n_written < kWrites; ++n_written) {
          file.append(std::string(kBytes, 'x').data(), kBytes);
        }
        file.commit();
      } catch (const OutputError& error) {
        const bool is_told = std::string(error.what()).find("File too large") != std::string::npos;
        ::_exit(is_told && n_written == n ? 0 : 2);
      }
      ::_exit(3);
    });
    EXPECT_EQ(status, 0) << n;
    EXPECT_EQ(read_text(in_folder("out")), "before");
    EXPECT_EQ(n_files(), 1u);
  }
}

TEST_F(OutputFileTest, ADiskThatIsFullIsAnErrorAndLeavesTheOldFile) {
  const std::string disk = in_folder("disk");
  fs::create_directory(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "needs the right to mount a small disk";
  }
  put(disk + "/out", "before");
  expect_error(OutputError::Kind::kIo, disk + "/out", "No space left",
               [&] { put(disk + "/out", std::string(100000, 'x')); });
  EXPECT_EQ(read_text(disk + "/out"), "before");
  EXPECT_EQ(std::distance(fs::directory_iterator(disk), fs::directory_iterator()), 1);
  put(disk + "/out", "after");
  EXPECT_EQ(read_text(disk + "/out"), "after");
  ASSERT_EQ(::umount(disk.c_str()), 0);
}

TEST_F(OutputFileTest, ASignalRemovesTheTemporaryFilesAndEndsTheProgram) {
  write_text(in_folder("out"), "before");
  for (const int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    const int status = in_child([&] {
      remove_temporary_files_on_signals();
      const OutputFile first(in_folder("out"), InPlace::kNever);
      const OutputFile second(in_folder("other"), InPlace::kNever);
      // The folder is held, so it does not matter where the program goes.
      if (n_files() != 3 || ::chdir("/") != 0) ::_exit(1);
      ::raise(signal_number);
    });
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    EXPECT_EQ(WTERMSIG(status), signal_number);
    EXPECT_EQ(n_files(), 1u);
    EXPECT_EQ(read_text(in_folder("out")), "before");
  }
}

TEST_F(OutputFileTest, ASignalThatTheParentIgnoresStaysIgnored) {
  const int status = in_child([&] {
    std::signal(SIGHUP, SIG_IGN);
    remove_temporary_files_on_signals();
    OutputFile file(in_folder("out"), InPlace::kNever);
    ::raise(SIGHUP);
    file.commit();
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(n_files(), 1u);
}

// Whatever a killed program left, the next one does not trip over it.
TEST_F(OutputFileTest, AKillLeavesTheOldFileOrTheNewOne) {
  constexpr unsigned kKills = 40;
  const std::string before(1 << 16, 'b');
  const std::string after(1 << 16, 'a');
  size_t n_old = 0;
  const auto end = std::chrono::steady_clock::now() + test::kPatience;
  const auto is_late = [&] { return std::chrono::steady_clock::now() > end; };
  // Where the machine is loaded all of them may come too late: then there are more.
  for (unsigned i = 0; i < kKills || (n_old == 0 && !is_late()); ++i) {
    put(in_folder("out"), before);
    const pid_t child = ::fork();
    if (child == 0) {
      put(in_folder("out"), after);
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(i % kKills * 50));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    const std::string got = read_text(in_folder("out"));
    EXPECT_TRUE(got == before || got == after);
    if (got == before) ++n_old;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      const std::string name = entry.path().filename();
      EXPECT_TRUE(name == "out" || name.starts_with("cria-")) << name;
    }
  }
  EXPECT_GT(n_old, 0u);
}

TEST_F(OutputFileTest, ManyCanBeOpenAtOnce) {
  constexpr size_t kFiles = 9;
  std::vector<std::unique_ptr<OutputFile>> files;
  for (size_t i = 0; i < kFiles; ++i) {
    files.push_back(std::make_unique<OutputFile>(in_folder(std::to_string(i)), InPlace::kNever));
  }
  EXPECT_EQ(n_files(), kFiles);
  files.clear();
  EXPECT_EQ(n_files(), 0u);
}

}  // namespace
}  // namespace cria::hosted
