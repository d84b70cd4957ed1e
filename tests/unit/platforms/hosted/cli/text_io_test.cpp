// Streams, lines and files of text.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <functional>
#include <string>

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
