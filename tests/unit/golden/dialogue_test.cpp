// The firmware's conversation, with a console that keeps what is printed.
#include "platforms/cortex_m/dialogue.h"

#include <gtest/gtest.h>

#include <string>

#include "platforms/cortex_m/console.h"
#include "tests/support/test_session.h"
#include "tests/unit/golden/tiny_chat_model.h"

namespace {

std::string printed;

}  // namespace

namespace cria::cortex_m {

void print(std::string_view text) { printed += text; }
void print(uint64_t number) { printed += std::to_string(number); }

namespace {

// Tokens that a session needs for an answer to end: the tiny model hardly ever says its end token.
constexpr uint32_t kContext = 24;

test::TestSession open(const test::MemorySource& source) {
  cria_config config = {};
  config.backend = CRIA_BACKEND_EXACT;
  config.context = kContext;
  return {source, config};
}

TEST(Dialogue, TextWithoutTokensIsNotSaid) {
  const test::MemorySource source(
      test::without_byte(test::without_template_text(test::tiny_model(), format::kChatTrim), '!'));
  test::TestSession session = open(source);
  static Dialogue dialogue;
  dialogue.start(session.instance());
  const cria_sampling greedy = {};
  for (const char* text : {"!", "\xC2\xA0", "!!!"}) {
    printed.clear();
    EXPECT_EQ(dialogue.answer(text, greedy), CRIA_OK) << text;
    EXPECT_NE(printed.find("no token"), std::string::npos) << text;
    EXPECT_EQ(dialogue.n_answered(), 0U);
    EXPECT_EQ(cria_position(session.session()), 0U);
  }
  ASSERT_EQ(dialogue.answer("hi", greedy), CRIA_OK);
  EXPECT_GT(dialogue.n_answered(), 0U);
  const uint32_t position = cria_position(session.session());
  ASSERT_EQ(dialogue.answer("!", greedy), CRIA_OK);
  EXPECT_EQ(cria_position(session.session()), position);
}

}  // namespace
}  // namespace cria::cortex_m
