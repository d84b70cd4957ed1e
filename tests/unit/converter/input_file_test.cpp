// Input files: what is no file is refused without waiting for it, and sizes count before bytes.
#include "converter/input_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "converter/side_files.h"
#include "tests/unit/converter/converter_fixtures.h"

namespace cria::test {
namespace {

using converter::InputFile;
using converter::read_small_file;

TEST(InputFileTest, APipeAFolderADeviceAndALinkToNothingAreRefused) {
  const TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::filesystem::create_directory(folder / "folder");
  std::filesystem::create_symlink("/dev/zero", folder / "device");
  std::filesystem::create_symlink("folder", folder / "link to folder");
  std::filesystem::create_symlink("pipe", folder / "link to pipe");
  std::filesystem::create_symlink("itself", folder / "itself");
  for (const auto& [name, kind] : {std::pair{"pipe", "a named pipe"},
                                   {"folder", "a folder"},
                                   {"device", "a device"},
                                   {"link to folder", "a folder"},
                                   {"link to pipe", "a named pipe"},
                                   {"itself", "a link that leads to itself"}}) {
    const std::string told = std::string(": is ") + kind + "; give a regular file";
    expect_invalid({name, told}, [&] { (void)InputFile(folder / name); });
    expect_invalid({name, told}, [&] { (void)read_small_file(folder / name, 100); });
  }
  std::filesystem::create_symlink("nothing", folder / "dangling");
  for (const char* name : {"dangling", "absent"}) {
    expect_invalid({name, "no such file"}, [&] { (void)InputFile(folder / name); });
  }
}

TEST(InputFileTest, AGitLfsPointerIsRefusedAndALongerTextIsNot) {
  const TempFolder folder;
  const std::string pointer =
      "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') +
      "\nsize 7\n";
  write_file(folder / "f", pointer);
  expect_invalid({"/f: is a Git LFS pointer", "git lfs pull"},
                 [&] { (void)InputFile(folder / "f"); });
  expect_invalid({"is a Git LFS pointer"}, [&] { (void)read_small_file(folder / "f", 1000); });
  write_file(folder / "f", pointer + std::string(1000, ' '));
  EXPECT_GT(InputFile(folder / "f").size_bytes(), 1000U);
}

TEST(InputFileTest, ALinkToAFileIsRead) {
  const TempFolder folder;
  write_file(folder / "f", "text");
  std::filesystem::create_symlink("f", folder / "link");
  EXPECT_EQ(read_small_file(folder / "link", 4), "text");
}

TEST(InputFileTest, AFileOverTheLimitIsNotRead) {
  const TempFolder folder;
  write_file(folder / "f", "1234567");
  EXPECT_EQ(read_small_file(folder / "f", 7), "1234567");
  expect_invalid({"7 bytes are too many", "at most 6"},
                 [&] { (void)read_small_file(folder / "f", 6); });
  // Sparse: reading it would take all memory.
  std::filesystem::resize_file(folder / "f", uint64_t{1} << 40);
  expect_invalid({"too many"}, [&] { (void)read_small_file(folder / "f", 1 << 20); });
}

TEST(InputFileTest, AFileShortenedMeanwhileIsAnErrorAndOneGrownIsNot) {
  const TempFolder folder;
  write_file(folder / "f", "1234567");
  const InputFile file(folder / "f");
  std::filesystem::resize_file(folder / "f", 100);
  Bytes bytes(file.size_bytes());
  file.read(0, bytes);
  EXPECT_EQ(std::string(bytes.begin(), bytes.end()), "1234567");
  std::filesystem::resize_file(folder / "f", 3);
  expect_refused(converter::ExitCode::kIo, {"shortened"}, [&] { file.read(0, bytes); });
}

TEST(SideFiles, WhateverHasTheNameOfOneIsNotPassedOver) {
  const TempFolder folder;
  using converter::SideFile;
  EXPECT_FALSE(converter::has_side_file(folder.path(), SideFile::kTokenizerJson));
  std::filesystem::create_symlink("nothing", folder / "tokenizer.json");
  EXPECT_TRUE(converter::has_side_file(folder.path(), SideFile::kTokenizerJson));
  expect_invalid({"tokenizer.json", "link to nothing"},
                 [&] { (void)converter::read_side_json(folder.path(), SideFile::kTokenizerJson); });
}

TEST(SideFiles, EachHasItsLimit) {
  const TempFolder folder;
  for (const converter::SideFileKind& kind : converter::kSideFiles) {
    std::filesystem::create_directories((folder / kind.name).parent_path());
    write_file(folder / kind.name, "{}");
    std::filesystem::resize_file(folder / kind.name, kind.max_bytes + 1);
    expect_invalid({kind.name, "too many", std::to_string(kind.max_bytes)},
                   [&] { (void)converter::read_side_file(folder.path(), kind.which); });
  }
}

}  // namespace
}  // namespace cria::test
