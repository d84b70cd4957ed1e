// A mapped file that loses its bytes ends the program with a line; other bus errors do as ever.
#include "platforms/hosted/session/bus_error.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/session/mapped_file.h"

namespace cria::hosted {
namespace {

constexpr size_t kFileBytes = 1 << 20;

class BusErrorTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "cria_bus_error_XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string make_file(const std::string& name) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << std::string(kFileBytes, 'x');
    return path;
  }

  // Runs action with the handler installed in a process of its own; gives its status and what it
  // said on standard error.
  int in_child(const std::function<void()>& action, std::string* said) const {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(ends[1], STDERR_FILENO);
      install_bus_error_handler();
      action();
      ::_exit(0);
    }
    ::close(ends[1]);
    char piece[256];
    for (ssize_t n = 0; (n = ::read(ends[0], piece, sizeof(piece))) > 0;) {
      said->append(piece, static_cast<size_t>(n));
    }
    ::close(ends[0]);
    // What an emulator says of a program that a signal ends is not the program's.
    for (size_t at = 0; (at = said->find("qemu: uncaught target signal")) != std::string::npos;) {
      said->erase(at, said->find('\n', at) + 1 - at);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }

  std::string folder_;
};

unsigned char read_byte(const cria_source& source, uint64_t offset) {
  return *static_cast<const volatile unsigned char*>(source.map(source.context, offset, 1));
}

TEST_F(BusErrorTest, NamesTheFileThatShrankAndRemovesTemporaryFiles) {
  const std::string first = make_file("first");
  const std::string second = make_file("s\x1b\nd");
  std::string said;
  const int status = in_child(
      [&] {
        MappedFile whole(first, Mapping::kWhenPossible);
        MappedFile cut(second, Mapping::kWhenPossible);
        const hosted::OutputFile output(folder_ + "/out", hosted::InPlace::kNever);
        const cria_source source = cut.source();
        if (read_byte(source, kFileBytes - 1) != 'x') ::_exit(1);
        if (::truncate(second.c_str(), 4096) != 0) ::_exit(2);
        if (read_byte(source, 0) != 'x') ::_exit(3);
        read_byte(source, kFileBytes - 1);
      },
      &said);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 4);
  EXPECT_EQ(said, "cria: error: " + folder_ +
                      "/s??d: became shorter while it was in use, or cannot be read any more; "
                      "copy it again\n");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_),
                          std::filesystem::directory_iterator()),
            2);
}

TEST_F(BusErrorTest, ALongPathIsCutAtItsFront) {
  std::string folder = folder_;
  for (int i = 0; i < 4; ++i) {
    folder += "/" + std::string(200, 'f');
    std::filesystem::create_directory(folder);
  }
  const std::string path = folder + "/name";
  std::ofstream(path) << std::string(kFileBytes, 'x');
  std::string said;
  const int status = in_child(
      [&] {
        MappedFile file(path, Mapping::kWhenPossible);
        if (::truncate(path.c_str(), 0) != 0) ::_exit(2);
        read_byte(file.source(), 0);
      },
      &said);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 4) << status;
  EXPECT_EQ(said.rfind("cria: error: ...f", 0), 0u) << said;
  EXPECT_NE(said.find("/name: became shorter"), std::string::npos) << said;
}

TEST_F(BusErrorTest, OneOutsideEveryMappingEndsTheProgramAsUsual) {
  const std::string path = make_file("file");
  const std::string other = make_file("other");
  std::string said;
  int status = in_child(
      [&] {
        const MappedFile file(path, Mapping::kWhenPossible);
        ::raise(SIGBUS);
      },
      &said);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) << status;
  status = in_child(
      [&] {
        { const MappedFile gone(other, Mapping::kWhenPossible); }
        const MappedFile file(path, Mapping::kWhenPossible);
        std::FILE* const opened = std::fopen(other.c_str(), "r");
        const auto* const base = static_cast<const volatile unsigned char*>(
            ::mmap(nullptr, kFileBytes, PROT_READ, MAP_PRIVATE, ::fileno(opened), 0));
        if (::truncate(other.c_str(), 0) != 0) ::_exit(2);
        (void)*base;
      },
      &said);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) << status;
  EXPECT_EQ(said, "");
}

}  // namespace
}  // namespace cria::hosted
