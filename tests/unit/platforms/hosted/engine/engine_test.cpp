// Answers of the engine: what they are, and that they depend on the request alone.
#include "platforms/hosted/engine/engine.h"

#include <gtest/gtest.h>

#include "tests/support/engine_trial.h"

namespace cria::hosted {
namespace {

using test::demo_path;
using test::demo_tokens;
using test::EngineTrial;
using test::HeardChoice;

AnswerRequest asking(const std::string& text, uint32_t max_tokens) {
  AnswerRequest request;
  request.prompt = demo_tokens(text);
  request.max_tokens = max_tokens;
  return request;
}

TEST(Engine, AnswersAsASessionAloneDoes) {
  EngineTrial trial(demo_path(), {});
  AnswerRequest request = asking("Once upon a time there was", 40);
  request.ignore_end = true;
  const HeardChoice heard = trial.ask(request);
  ASSERT_EQ(heard.ends.size(), 1u);
  EXPECT_EQ(heard.ends[0].end, AnswerEnd::kLimit);
  EXPECT_EQ(heard.ends[0].n_drawn, 40u);
  EXPECT_EQ(heard.tokens.size(), 40u);
  EXPECT_FALSE(heard.text.empty());
}

}  // namespace
}  // namespace cria::hosted
