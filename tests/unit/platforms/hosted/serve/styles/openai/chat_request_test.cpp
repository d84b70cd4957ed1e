#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/styles/openai/openai.h"

namespace cria::hosted {
namespace {

std::vector<ChatMessage> messages_of(const std::string& messages) {
  return chat_messages(Json::parse("{\"messages\": [" + messages + "]}"));
}

std::string refusal_of(const std::string& messages) {
  try {
    messages_of(messages);
  } catch (const ApiError& error) {
    return error.what();
  }
  return {};
}

TEST(ChatRequest, AnAnswerMayBeWithoutText) {
  for (
      const char* message :
      {R"({"role": "assistant", "content": null})", R"({"role": "assistant"})",
       R"({"role": "assistant", "content": null, "reasoning_content": "Hm.", "tool_calls": []})"}) {
    const std::vector<ChatMessage> messages = messages_of(message);
    EXPECT_EQ(messages.at(0).role, CRIA_ASSISTANT);
    EXPECT_EQ(messages[0].text, "");
  }
  EXPECT_EQ(refusal_of(R"({"role": "user", "content": null})"), "message 1 has no content");
  EXPECT_EQ(refusal_of(R"({"role": "user", "content": "a"}, {"role": "system"})"),
            "message 2 has no content");
}

TEST(ChatRequest, AnAnswersThoughtsAreNotItsText) {
  const std::vector<ChatMessage> messages =
      messages_of(R"({"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."})");
  EXPECT_EQ(messages.at(0).text, "Yes.");
}

TEST(ChatRequest, ADeveloperSpeaksAsTheSystem) {
  EXPECT_EQ(messages_of(R"({"role": "developer", "content": "Be brief."})").at(0).role,
            CRIA_SYSTEM);
}

}  // namespace
}  // namespace cria::hosted
