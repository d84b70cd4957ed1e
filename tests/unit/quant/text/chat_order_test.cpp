#include "quant/text/chat_order.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "quant/text/chat_template_format.h"

namespace cria {
namespace {

// Messages by letters: S system, U user, A answer, c one call, C two, R a result of the next call
// that has none, r the same without name and id, x a result of another call.
uint32_t disorder(std::string_view letters, bool opens_turn = false, bool has_tools = true) {
  static constexpr std::array<std::string_view, 10> kIds = {"i0", "i1", "i2", "i3", "i4",
                                                            "i5", "i6", "i7", "i8", "i9"};
  std::vector<std::vector<ChatCall>> calls(letters.size());
  std::vector<ChatParts> parts(letters.size());
  std::vector<ChatMessage> messages;
  size_t n_calls = 0;
  size_t n_results = 0;
  for (size_t i = 0; i < letters.size(); ++i) {
    const char letter = letters[i];
    ChatRole role = ChatRole::kAssistant;
    if (letter == 'S') role = ChatRole::kSystem;
    if (letter == 'U') role = ChatRole::kUser;
    if (letter == 'R' || letter == 'r' || letter == 'x') role = ChatRole::kTool;
    const size_t n = letter == 'C' ? 2 : letter == 'c' ? 1 : 0;
    for (size_t k = 0; k < n; ++k) calls[i].push_back({"f", "{}", kIds[n_calls++]});
    parts[i].calls = calls[i];
    if (letter == 'R') parts[i].id = kIds[n_results++];
    if (letter == 'x') parts[i].name = "g";
    messages.push_back({role, "t", &parts[i]});
  }
  const std::array<std::span<const char>, 1> tools = {std::string_view("{}")};
  const Conversation conversation = {messages,
                                     opens_turn ? ChatEnd::kOpened : ChatEnd::kClosed,
                                     {},
                                     has_tools ? std::span<const std::span<const char>>(tools)
                                               : std::span<const std::span<const char>>()};
  return chat_disorder(conversation);
}

TEST(ChatOrderTest, WhatProgramsSendIsInOrder) {
  for (const char* letters :
       {"U", "SU", "UA", "UAU", "SUAUA", "Uc", "UcR", "UcRA", "UCRRA", "UCrr", "SUcRcRCRRAUcR"}) {
    EXPECT_EQ(disorder(letters), 0U) << letters;
  }
  for (const char* letters : {"U", "SUAU", "UcR", "UCRR"}) {
    EXPECT_EQ(disorder(letters, true), 0U) << letters;
  }
  EXPECT_EQ(disorder("UAU", true, false), 0U);
}

TEST(ChatOrderTest, EachKindOfDisorderIsTold) {
  const struct {
    const char* letters;
    uint32_t disorder;
  } kCases[] = {
      {"USA", format::kChatLaterSystem},
      {"SSU", format::kChatLaterSystem},
      {"UcSR", format::kChatLaterSystem},
      {"A", format::kChatNoFirstQuestion},
      {"SAU", format::kChatNoFirstQuestion},
      {"S", format::kChatNoFirstQuestion},
      {"UU", format::kChatTwoQuestions},
      {"USU", format::kChatTwoQuestions | format::kChatLaterSystem | format::kChatManyDisorders},
      {"UAA", format::kChatTwoAnswers},
      {"UAcR", format::kChatTwoAnswers},
      {"UcA", format::kChatOpenCalls},
      {"UcU", format::kChatOpenCalls},
      {"Ucc", format::kChatOpenCalls},
      {"UCR", format::kChatOpenCalls},
      {"UCRA", format::kChatOpenCalls},
      {"UR", format::kChatResultsWithoutCalls},
      {"UAR", format::kChatResultsWithoutCalls},
      {"UcRR", format::kChatResultsWithoutCalls},
      {"UcRAR", format::kChatResultsWithoutCalls},
      {"Ucx", format::kChatOtherResults},
      {"UcRU", format::kChatQuestionBehindResult},
  };
  for (const auto& one : kCases) {
    EXPECT_EQ(disorder(one.letters), one.disorder) << one.letters;
    EXPECT_NE(disorder_refusal(one.disorder), nullptr);
  }
  EXPECT_EQ(disorder("UA", true), format::kChatOpenedBehindAnswer);
  EXPECT_EQ(disorder("Uc", true), format::kChatOpenedBehindCalls);
  EXPECT_EQ(disorder("UcR", true, false), format::kChatCallsWithoutTools);
  EXPECT_EQ(disorder("UcU", true, false), format::kChatCallsWithoutTools | format::kChatOpenCalls);
  EXPECT_EQ(disorder("UU", true, false), format::kChatTwoQuestions << format::kChatPlain);
  EXPECT_EQ(disorder_refusal(0), nullptr);
}

TEST(ChatOrderTest, AnIdOfTwoFunctionsIsTold) {
  const auto call = [](std::string_view name) {
    return ChatCall{name, std::string_view("{}"), std::string_view("i")};
  };
  const ChatCall calls[] = {call("f"), call("g"), call("f")};
  const auto disorder_of = [&](const ChatCall& a, const ChatCall& b) {
    const ChatParts parts[] = {
        {{}, {&a, 1}, {}, {}}, {{}, {}, {}, std::string_view("i")}, {{}, {&b, 1}, {}, {}}};
    const ChatMessage messages[] = {{ChatRole::kUser, "u"},
                                    {ChatRole::kAssistant, "", &parts[0]},
                                    {ChatRole::kTool, "r", &parts[1]},
                                    {ChatRole::kAssistant, "", &parts[2]}};
    const std::span<const char> tool = std::string_view("{}");
    return chat_disorder({messages, ChatEnd::kClosed, {}, {&tool, 1}});
  };
  EXPECT_EQ(disorder_of(calls[0], calls[2]), 0U);
  EXPECT_EQ(disorder_of(calls[0], calls[1]), uint32_t{format::kChatOtherResults});
}

TEST(ChatOrderTest, IdsOfMoreCallsThanAreComparedCountAsShared) {
  for (const size_t n : {size_t{2048}, size_t{2049}}) {
    std::vector<std::string> ids;
    for (size_t i = 0; i < n; ++i) ids.push_back("i" + std::to_string(i));
    std::vector<ChatCall> calls;
    for (const std::string& id : ids) calls.push_back({"f", "{}", id});
    ChatParts parts = {};
    parts.calls = calls;
    const std::vector<ChatMessage> messages = {{ChatRole::kUser, "t", nullptr},
                                               {ChatRole::kAssistant, "t", &parts}};
    const uint32_t found = chat_disorder({messages, ChatEnd::kClosed, {}, {}});
    EXPECT_EQ((found & format::kChatOtherResults) != 0, n > 2048) << n;
  }
}

TEST(ChatOrderTest, EachKindHasAReasonOfItsOwn) {
  std::vector<std::string> reasons;
  for (uint32_t i = 0; i < format::kChatDisorders; ++i) {
    reasons.emplace_back(disorder_refusal(1U << (format::kChatRefuses + i)));
    for (size_t k = 0; k + 1 < reasons.size(); ++k) EXPECT_NE(reasons[k], reasons.back());
  }
}

}  // namespace
}  // namespace cria
