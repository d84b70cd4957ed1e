// An output file appears whole or not at all.
#include "converter/output_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {
namespace {

using converter::ExitCode;
using converter::OutputFile;

std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(OutputFile, ItAppearsAtCommit) {
  const TempFolder folder;
  {
    OutputFile file(folder / "out");
    file.write(3, bytes_of("abc"));
    file.flush(8);
    EXPECT_FALSE(std::filesystem::exists(folder / "out"));
    file.commit();
  }
  EXPECT_EQ(read_file(folder / "out"), std::string("\0\0\0abc\0\0", 8));
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(OutputFile, WithoutCommitNothingIsLeft) {
  const TempFolder folder;
  write_file(folder / "out", "before");
  {
    OutputFile file(folder / "out");
    file.write(0, bytes_of("after"));
    file.flush(5);
    EXPECT_EQ(files_in(folder.path()), 2u);
  }
  EXPECT_EQ(read_file(folder / "out"), "before");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(OutputFile, ItReplacesWhatWasThere) {
  const TempFolder folder;
  write_file(folder / "out", "before");
  OutputFile file(folder / "out");
  file.write(0, bytes_of("after"));
  file.flush(5);
  file.commit();
  EXPECT_EQ(read_file(folder / "out"), "after");
}

TEST(OutputFile, ALinkKeepsPointingToTheFile) {
  const TempFolder folder;
  write_file(folder / "target", "before");
  std::filesystem::create_symlink("target", folder / "link");
  OutputFile file(folder / "link");
  file.write(0, bytes_of("after"));
  file.flush(5);
  file.commit();
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_file(folder / "target"), "after");
}

TEST(OutputFile, FoldersAndDevicesAreNotReplaced) {
  const TempFolder folder;
  expect_refused(ExitCode::kIo, {"folder"}, [&] { OutputFile file(folder.path()); });
  expect_refused(ExitCode::kIo, {"/dev/null", "regular"}, [] { OutputFile file("/dev/null"); });
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  expect_refused(ExitCode::kIo, {"regular"}, [&] { OutputFile file(folder / "pipe"); });
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(OutputFile, AFolderThatIsNotThereIsNamed) {
  const TempFolder folder;
  expect_refused(ExitCode::kIo, {"none/out", "No such file"},
                 [&] { OutputFile file(folder / "none/out"); });
}

// A limit on file sizes stands in for a full disk.
TEST(OutputFile, ADiskThatIsFullIsAnErrorAndLeavesNothing) {
  const TempFolder folder;
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = before;
  tight.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  expect_refused(ExitCode::kIo, {"out", "File too large"}, [&] {
    OutputFile file(folder / "out");
    file.write(0, bytes_of(std::string(10000, 'x')));
  });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(files_in(folder.path()), 0u);
}

TEST(OutputFile, SeveralCanBeOpenAtOnce) {
  const TempFolder folder;
  std::vector<std::unique_ptr<OutputFile>> files;
  for (int i = 0; i < 9; ++i) {
    files.push_back(std::make_unique<OutputFile>(folder / std::to_string(i)));
  }
  EXPECT_EQ(files_in(folder.path()), 9u);
  files.clear();
  EXPECT_EQ(files_in(folder.path()), 0u);
}

}  // namespace
}  // namespace cria::test
