#include "platforms/hosted/chat_file.h"

#include <gtest/gtest.h>

#include <string>

#include "platforms/hosted/program_error.h"

namespace cria::hosted {
namespace {

ChatRecord example() {
  ChatRecord record;
  record.context_is_stale = true;
  record.messages = {{CRIA_SYSTEM, 2}, {CRIA_USER, 5}, {CRIA_ASSISTANT, 0}};
  record.text = "hihello";
  record.fed = {1, 2, 3};
  record.pending = {7};
  record.state = {9, 8, 7, 6, 5};
  return record;
}

bool is_refused(const std::string& bytes) {
  try {
    parse_chat_file(bytes, "file");
    return false;
  } catch (const ProgramError& error) {
    return error.code() == ExitCode::kBadInput;
  }
}

TEST(ChatFile, ComesBackAsItWasWritten) {
  const ChatRecord record = parse_chat_file(format_chat_file(example()), "file");
  EXPECT_TRUE(record.context_is_stale);
  ASSERT_EQ(record.messages.size(), 3u);
  EXPECT_EQ(record.messages[1].role, CRIA_USER);
  EXPECT_EQ(record.messages[1].n_bytes, 5u);
  EXPECT_EQ(record.text, example().text);
  EXPECT_EQ(record.fed, example().fed);
  EXPECT_EQ(record.pending, example().pending);
  EXPECT_EQ(record.state, example().state);
}

TEST(ChatFile, RefusesEveryShorterAndLongerFile) {
  const std::string bytes = format_chat_file(example());
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_TRUE(is_refused(bytes.substr(0, size))) << size;
  }
  EXPECT_TRUE(is_refused(bytes + "x"));
}

TEST(ChatFile, RefusesEveryBitFlipBeforeTheState) {
  constexpr int kBitsOfByte = 8;
  const std::string bytes = format_chat_file(example());
  size_t n_tried = 0;
  for (size_t i = 0; i + example().state.size() < bytes.size(); ++i) {
    for (int bit = 0; bit < kBitsOfByte; ++bit) {
      std::string flipped = bytes;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      // The one flag that may be either way is told by no checksum.
      constexpr size_t kFlags = 12;
      if (i == kFlags && bit == 0) continue;
      EXPECT_TRUE(is_refused(flipped)) << "byte " << i << " bit " << bit;
      ++n_tried;
    }
  }
  EXPECT_GT(n_tried, 0u);
}

}  // namespace
}  // namespace cria::hosted
