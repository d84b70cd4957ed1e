#include "platforms/hosted/chat_file.h"

#include <gtest/gtest.h>

#include <string>

#include "platforms/hosted/program_error.h"

namespace cria::hosted {
namespace {

constexpr ChatLimits kLimits = {.state_bytes = 100, .vocab_size = 8, .context = 3};

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
    parse_chat_file(bytes, kLimits, "file");
    return false;
  } catch (const ProgramError& error) {
    return error.code() == ExitCode::kBadInput;
  }
}

TEST(ChatFile, ComesBackAsItWasWritten) {
  const ChatRecord record = parse_chat_file(format_chat_file(example()), kLimits, "file");
  EXPECT_TRUE(record.context_is_stale);
  ASSERT_EQ(record.messages.size(), 3u);
  EXPECT_EQ(record.messages[1].role, CRIA_USER);
  EXPECT_EQ(record.messages[1].n_bytes, 5u);
  EXPECT_EQ(record.text, example().text);
  EXPECT_EQ(record.fed, example().fed);
  EXPECT_EQ(record.pending, example().pending);
  EXPECT_EQ(record.state, example().state);
}

TEST(ChatFile, RefusesTokensOutsideTheVocabularyAndMoreThanTheContextHolds) {
  EXPECT_FALSE(is_refused(format_chat_file(example())));
  ChatRecord record = example();
  record.fed[1] = kLimits.vocab_size;
  EXPECT_TRUE(is_refused(format_chat_file(record)));
  record = example();
  record.pending[0] = kLimits.vocab_size;
  EXPECT_TRUE(is_refused(format_chat_file(record)));
  record = example();
  record.fed.push_back(1);
  EXPECT_TRUE(is_refused(format_chat_file(record)));
  record = example();
  record.pending.resize(1 << 20);
  EXPECT_TRUE(is_refused(format_chat_file(record)));
}

TEST(ChatFile, RefusesMessagesThatAreNoConversation) {
  const auto with_roles = [](const std::vector<cria_role>& roles) {
    ChatRecord record = example();
    record.messages.clear();
    for (const cria_role role : roles) record.messages.push_back({role, 0});
    if (!record.messages.empty()) record.messages[0].n_bytes = record.text.size();
    if (record.messages.empty()) record.text.clear();
    return format_chat_file(record);
  };
  constexpr cria_role kOther = static_cast<cria_role>(3);
  for (const std::vector<cria_role>& roles : std::vector<std::vector<cria_role>>{
           {},
           {CRIA_SYSTEM},
           {CRIA_USER, CRIA_ASSISTANT},
           {CRIA_SYSTEM, CRIA_USER, CRIA_ASSISTANT, CRIA_USER, CRIA_ASSISTANT}}) {
    EXPECT_FALSE(is_refused(with_roles(roles))) << roles.size();
  }
  for (const std::vector<cria_role>& roles :
       std::vector<std::vector<cria_role>>{{CRIA_USER},
                                           {CRIA_ASSISTANT},
                                           {CRIA_ASSISTANT, CRIA_USER},
                                           {CRIA_USER, CRIA_USER},
                                           {CRIA_SYSTEM, CRIA_SYSTEM},
                                           {CRIA_USER, CRIA_ASSISTANT, CRIA_SYSTEM},
                                           {CRIA_USER, CRIA_ASSISTANT, CRIA_ASSISTANT},
                                           {kOther}}) {
    EXPECT_TRUE(is_refused(with_roles(roles))) << roles.size();
  }
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
