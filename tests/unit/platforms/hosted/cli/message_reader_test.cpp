// Messages of several lines.
#include "platforms/hosted/cli/message_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "platforms/hosted/base/program_error.h"

namespace cria::hosted {
namespace {

struct Case {
  std::vector<std::string> lines;
  const char* text;
  bool may_be_command;
};

TEST(MessageLines, LinesAreOneMessageEachUnlessTheySayOtherwise) {
  const Case cases[] = {
      {{"hello"}, "hello", true},
      {{""}, "", true},
      {{"/reset"}, "/reset", true},
      {{"one\\", "two\\", "three"}, "one\ntwo\nthree", true},
      {{"\\", ""}, "\n", true},
      {{"\"\"\"", "one", "  two", "\"\"\""}, "one\n  two\n", false},
      {{"\"\"\"one", "/two\\", "three\"\"\""}, "one\n/two\\\nthree", false},
      {{"\"\"\"one\"\"\""}, "one", false},
      {{"\"\"\"/reset\"\"\" "}, "/reset", false},
      {{"  \"\"\"", "", "\"\"\""}, "\n", false},
      {{"/system \"\"\"one", "two\"\"\""}, "/system one\ntwo", true},
      {{"/edit  \"\"\"", "two", "\"\"\""}, "/edit  two\n", true},
      {{"say \"\"\" there"}, "say \"\"\" there", true},
      {{"two\\", "\"\"\""}, "two\n\"\"\"", true},
  };
  for (const Case& each : cases) {
    MessageLines lines;
    for (size_t i = 0; i < each.lines.size(); ++i) {
      EXPECT_EQ(lines.add(each.lines[i]), i + 1 == each.lines.size()) << each.text << ' ' << i;
    }
    EXPECT_EQ(lines.text(), each.text);
    EXPECT_EQ(lines.may_be_command(), each.may_be_command) << each.text;
  }
}

TEST(MessageLines, AMessageThatIsTakenBackLeavesNothing) {
  MessageLines lines;
  EXPECT_TRUE(lines.is_empty());
  EXPECT_FALSE(lines.add("\"\"\"one"));
  EXPECT_FALSE(lines.is_empty());
  lines.clear();
  EXPECT_TRUE(lines.is_empty());
  EXPECT_TRUE(lines.add("hello"));
  EXPECT_EQ(lines.text(), "hello");
}

TEST(MessageLines, AMessageHasALimit) {
  MessageLines lines;
  const std::string line(size_t{1} << 20, 'x');
  EXPECT_THROW(
      {
        for (int i = 0; i < 17; ++i) EXPECT_FALSE(lines.add(line + "\\"));
      },
      ProgramError);
  EXPECT_TRUE(lines.is_empty());
}

}  // namespace
}  // namespace cria::hosted
