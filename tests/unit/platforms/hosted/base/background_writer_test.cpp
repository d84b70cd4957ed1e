#include "platforms/hosted/base/background_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cria::hosted {
namespace {

constexpr size_t kKept = 10000;

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  ~Pipe() {
    close_reader();
    close_writer();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_reader() {
    if (ends[0] >= 0) ::close(std::exchange(ends[0], -1));
  }
  void close_writer() {
    if (ends[1] >= 0) ::close(std::exchange(ends[1], -1));
  }
  void fill() const {
    ::fcntl(ends[1], F_SETFL, O_NONBLOCK);
    while (::write(ends[1], "full\n", 5) > 0) {
    }
    ::fcntl(ends[1], F_SETFL, 0);
  }
  [[nodiscard]] std::string read_to_end() const {
    std::string all;
    char part[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], part, sizeof part)) > 0;) {
      all.append(part, static_cast<size_t>(n));
    }
    return all;
  }
  int ends[2] = {-1, -1};
};

std::string line_of(int i) { return "line " + std::to_string(i) + "\n"; }

TEST(BackgroundWriter, WhatIsReadIsWholeAndInOrder) {
  Pipe pipe;
  std::string got;
  std::thread reader([&] { got = pipe.read_to_end(); });
  std::string wanted;
  {
    BackgroundWriter writer(pipe.ends[1], size_t{1} << 20);
    for (int i = 0; i < 20000; ++i) {
      writer.put(line_of(i));
      wanted += line_of(i);
    }
    EXPECT_EQ(writer.n_dropped(), 0u);
  }
  pipe.close_writer();
  reader.join();
  EXPECT_EQ(got, wanted);
}

// Neither do the threads that write wait, nor does the end.
TEST(BackgroundWriter, WhatNobodyReadsIsDroppedAndCounted) {
  Pipe pipe;
  pipe.fill();
  auto writer = std::make_unique<BackgroundWriter>(pipe.ends[1], kKept);
  constexpr int kThreads = 4;
  constexpr int kLines = 10000;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kLines; ++i) writer->put(line_of(i));
    });
  }
  for (std::thread& each : threads) each.join();
  const uint64_t n_dropped = writer->n_dropped();
  EXPECT_GT(n_dropped, 0u);
  // Now somebody reads, and hears of the rest.
  std::string got;
  std::thread reader([&] { got = pipe.read_to_end(); });
  writer.reset();
  pipe.close_writer();
  reader.join();
  uint64_t n_lines = 0;
  uint64_t n_told = 0;
  std::istringstream lines(got);
  for (std::string line; std::getline(lines, line);) {
    unsigned long long n = 0;
    if (std::sscanf(line.c_str(), "cria: %llu lines were dropped", &n) == 1) {
      n_told += n;
    } else if (line.substr(0, 4) != "full") {
      EXPECT_EQ(line.substr(0, 5), "line ");
      ++n_lines;
    }
  }
  EXPECT_EQ(n_lines + n_dropped, uint64_t{kThreads} * kLines);
  EXPECT_EQ(n_told, n_dropped);
}

TEST(BackgroundWriter, ItEndsThoughNobodyReads) {
  Pipe pipe;
  pipe.fill();
  BackgroundWriter writer(pipe.ends[1], kKept);
  for (int i = 0; i < 10000; ++i) writer.put(line_of(i));
}

TEST(BackgroundWriter, AReaderThatIsGoneIsNoMistake) {
  std::signal(SIGPIPE, SIG_IGN);  // as in the programs
  Pipe pipe;
  pipe.close_reader();
  BackgroundWriter writer(pipe.ends[1], kKept);
  for (int i = 0; i < 1000; ++i) writer.put(line_of(i));
}

}  // namespace
}  // namespace cria::hosted
