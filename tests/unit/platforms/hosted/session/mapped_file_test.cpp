#include "platforms/hosted/session/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "platforms/hosted/base/program_error.h"

namespace cria::hosted {
namespace {

class MappedFileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "cria_mapped_file_XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    path_ = folder_ + "/file";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& bytes) { std::ofstream(path_, std::ios::binary) << bytes; }

  std::string folder_;
  std::string path_;
};

ExitCode code_of_opening(const std::string& path) {
  try {
    MappedFile file(path, Mapping::kWhenPossible);
    return ExitCode::kDone;
  } catch (const ProgramError& error) {
    return error.code();
  }
}

TEST_F(MappedFileTest, MapsAndReadsTheSameBytes) {
  write("0123456789");
  MappedFile file(path_, Mapping::kWhenPossible);
  ASSERT_TRUE(file.is_mapped());
  const cria_source source = file.source();
  EXPECT_EQ(source.size, 10u);
  const void* const mapped = source.map(source.context, 3, 4);
  ASSERT_NE(mapped, nullptr);
  EXPECT_EQ(std::string(static_cast<const char*>(mapped), 4), "3456");
  char bytes[4];
  EXPECT_EQ(source.read(source.context, 3, bytes, sizeof(bytes)), 0);
  EXPECT_EQ(std::string(bytes, sizeof(bytes)), "3456");
}

TEST_F(MappedFileTest, RefusesRangesOutsideTheFile) {
  write("0123456789");
  MappedFile file(path_, Mapping::kWhenPossible);
  const cria_source source = file.source();
  char byte;
  EXPECT_EQ(source.map(source.context, 10, 1), nullptr);
  EXPECT_EQ(source.map(source.context, UINT64_MAX, 2), nullptr);
  EXPECT_NE(source.read(source.context, 10, &byte, 1), 0);
  EXPECT_NE(source.read(source.context, UINT64_MAX, &byte, 1), 0);
  EXPECT_EQ(source.read(source.context, 10, &byte, 0), 0);
}

TEST_F(MappedFileTest, WithoutMappingThereIsOnlyRead) {
  write("0123456789");
  MappedFile file(path_, Mapping::kNever);
  EXPECT_FALSE(file.is_mapped());
  EXPECT_EQ(file.source().map, nullptr);
  EXPECT_EQ(MappedFile(path_, Mapping::kWhenPossible).copying_source().map, nullptr);
}

TEST_F(MappedFileTest, AFileThatShrankCannotBeRead) {
  write("0123456789");
  MappedFile file(path_, Mapping::kNever);
  const cria_source source = file.source();
  ASSERT_EQ(::truncate(path_.c_str(), 4), 0);
  char bytes[10];
  EXPECT_NE(source.read(source.context, 0, bytes, sizeof(bytes)), 0);
}

TEST_F(MappedFileTest, WhatIsNoFileIsBadInput) {
  EXPECT_EQ(code_of_opening(path_), ExitCode::kInvalidInput);
  EXPECT_EQ(code_of_opening(folder_), ExitCode::kInvalidInput);
  EXPECT_EQ(code_of_opening(path_ + "/below"), ExitCode::kInvalidInput);
  write("");
  EXPECT_EQ(code_of_opening(path_), ExitCode::kInvalidInput);
  EXPECT_EQ(code_of_opening(path_ + "/below"), ExitCode::kInvalidInput);
  EXPECT_EQ(code_of_opening("/dev/null"), ExitCode::kInvalidInput);
}

TEST_F(MappedFileTest, ANamedPipeIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(code_of_opening(path_), ExitCode::kInvalidInput);
}

TEST_F(MappedFileTest, AFileThatMayNotBeReadIsAnIoError) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read every file";
  write("0123456789");
  ASSERT_EQ(::chmod(path_.c_str(), 0), 0);
  EXPECT_EQ(code_of_opening(path_), ExitCode::kIo);
}

}  // namespace
}  // namespace cria::hosted
