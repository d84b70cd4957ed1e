// Streams, lines and files of text.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <tuple>

#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/cli/text_stream.h"
#include "platforms/hosted/session/interrupt.h"

namespace cria::hosted {
namespace {

struct Pipe {
  Pipe() { EXPECT_EQ(::pipe(ends), 0); }
  ~Pipe() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  void give(const std::string& text) {
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void end() {
    ::close(ends[1]);
    ends[1] = -1;
  }
  int ends[2];
};

TEST(TextStream, WritesWhatWasPutOnFlush) {
  Pipe pipe;
  TextStream out(pipe.ends[1]);
  EXPECT_TRUE(out.at_line_start());
  out.put("hel");
  out.put("lo");
  EXPECT_FALSE(out.at_line_start());
  out.end_line();
  EXPECT_TRUE(out.at_line_start());
  out.end_line();
  pipe.end();
  EXPECT_EQ(read_descriptor(pipe.ends[0], "pipe", kMostTextBytes), "hello\n");
}

TEST(TextStream, LongTextComesWholeAndInOrder) {
  Pipe pipe;
  const std::string text(20000, 'x');
  TextStream out(pipe.ends[1]);
  out.put("<");
  out.put(text);
  out.put(">");
  out.flush();
  pipe.end();
  EXPECT_EQ(read_descriptor(pipe.ends[0], "pipe", kMostTextBytes), "<" + text + ">");
}

TEST(TextStream, AReaderThatWentAwayIsNoError) {
  install_program_signals();
  Pipe pipe;
  ::close(pipe.ends[0]);
  pipe.ends[0] = -1;
  TextStream out(pipe.ends[1]);
  out.put("text");
  EXPECT_FALSE(out.closed());
  out.flush();
  EXPECT_TRUE(out.closed());
  out.put("more");
  out.flush();
}

TEST(TextStream, AFullDiskIsAnIoError) {
  const int full = ::open("/dev/full", O_WRONLY);
  if (full < 0) GTEST_SKIP() << "no /dev/full";
  TextStream out(full);
  out.put("text");
  try {
    out.flush();
    ADD_FAILURE() << "flush did not fail";
  } catch (const ProgramError& error) {
    EXPECT_EQ(error.code(), ExitCode::kIo);
  }
  ::close(full);
}

// What a stream puts on a terminal, which passes every byte on.
TEST(TextStream, FiltersOnATerminalAlone) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0) {
    GTEST_SKIP() << "no pseudo terminals";
  }
  const int side = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  ASSERT_GE(side, 0);
  termios raw = {};
  ASSERT_EQ(::tcgetattr(side, &raw), 0);
  ::cfmakeraw(&raw);
  ASSERT_EQ(::tcsetattr(side, TCSANOW, &raw), 0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const std::string text = "a\x1b[2J\xc2\x9b\xc3\xa9\n";
  for (const auto& [in, out, want] :
       {std::tuple<int, int, std::string>{side, terminal, "a?[2J?\xc3\xa9\n?"},
        {ends[1], ends[0], text + "\xc3"}}) {
    {
      TextStream stream(in);
      stream.put(text.substr(0, 6));
      stream.put(text.substr(6));
      stream.flush();
      stream.put("\xc3");  // never becomes a character
    }
    char got[64] = {};
    size_t n_got = 0;
    while (n_got < want.size()) {
      const ssize_t n = ::read(out, got + n_got, sizeof(got) - n_got);
      ASSERT_GT(n, 0);
      n_got += static_cast<size_t>(n);
    }
    EXPECT_EQ(std::string(got, n_got), want);
  }
  // Longer than the stream's buffer.
  TextStream stream(side);
  std::string got;
  for (int i = 0; i < 3000; ++i) {
    stream.put("\xe2\x82\xac\x1b");
    stream.flush();
    char piece[16];
    const ssize_t n = ::read(terminal, piece, sizeof(piece));
    ASSERT_GT(n, 0);
    got.append(piece, static_cast<size_t>(n));
  }
  EXPECT_EQ(got.find('\x1b'), std::string::npos);
  for (const int descriptor : {side, terminal, ends[0], ends[1]}) ::close(descriptor);
}

TEST(LineReader, GivesLinesWithoutTheirEnds) {
  const InterruptGuard guard(SecondInterrupt::kIsTheSame);
  Pipe pipe;
  pipe.give("one\n\ntwo\r\nthree");
  pipe.end();
  LineReader lines(pipe.ends[0]);
  std::string line;
  for (const char* const want : {"one", "", "two", "three"}) {
    ASSERT_EQ(lines.next(&line), LineResult::kLine);
    EXPECT_EQ(line, want);
  }
  EXPECT_EQ(lines.next(&line), LineResult::kEnd);
  EXPECT_EQ(lines.next(&line), LineResult::kEnd);
}

TEST(LineReader, CtrlCEndsAWaitButNotALineThatIsThere) {
  const InterruptGuard guard(SecondInterrupt::kIsTheSame);
  Pipe pipe;
  pipe.give("one\ntwo\n");
  LineReader lines(pipe.ends[0]);
  std::string line;
  ASSERT_EQ(lines.next(&line), LineResult::kLine);
  ::raise(SIGINT);
  EXPECT_TRUE(interrupted());
  ASSERT_EQ(lines.next(&line), LineResult::kLine);
  EXPECT_EQ(line, "two");
  // Also when it came before the wait began.
  EXPECT_EQ(lines.next(&line), LineResult::kInterrupted);
  clear_interrupt();
  pipe.give("three\n");
  EXPECT_EQ(lines.next(&line), LineResult::kLine);
}

void expect_long(const std::function<void()>& read) {
  try {
    read();
    ADD_FAILURE() << "was read";
  } catch (const ProgramError& error) {
    EXPECT_EQ(error.code(), ExitCode::kInvalidInput);
    EXPECT_NE(std::string(error.what()).find("bytes"), std::string::npos) << error.what();
  }
}

TEST(Input, HasALimit) {
  Pipe pipe;
  pipe.give("12345");
  pipe.end();
  expect_long([&] { read_descriptor(pipe.ends[0], "pipe", 4); });
  Pipe other;
  other.give("12345");
  other.end();
  EXPECT_EQ(read_descriptor(other.ends[0], "pipe", 5), "12345");
}

TEST(Input, DropsOneNewlineAlone) {
  for (const auto& [text, want] : {std::pair<std::string, std::string>{"a\n", "a"},
                                   {"a\r\n", "a"},
                                   {"a\n\n", "a\n"},
                                   {"a", "a"},
                                   {"", ""},
                                   {"\n", ""}}) {
    std::string dropped = text;
    drop_last_newline(&dropped);
    EXPECT_EQ(dropped, want);
  }
}

}  // namespace
}  // namespace cria::hosted
