// What becomes of calls that are long, broken, cut, doubled, or in the wrong place.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "quant/text/utf8.h"
#include "tests/support/call_trial.h"

namespace cria::calls {
namespace {

using nlohmann::json;
using test::CallTrial;
using test::ToldEvent;

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "write", "parameters": {"properties": {
    "text": {"type": "string"}, "maybe": {"type": ["string", "null"]}, "lines": {"type": "array"},
    "unit": {"enum": ["1", "2"]}, "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]}}}}},
  {"name": "ping"}])";
constexpr size_t kHold = CRIA_CALLS_LEAST_HOLD;

json read(const char* chat_template, std::string_view answer,
          cria_calls_ending ended = CRIA_CALLS_STOPPED, std::string_view opened = {}) {
  CallTrial trial(test::call_form_of(chat_template), kTools, kHold);
  trial.run(opened, answer, answer.size() + 1, ended, nullptr);
  return trial.answer();
}

json call(const char* name, const json& arguments) {
  return {{"name", name}, {"arguments", arguments}};
}

std::vector<cria_calls_kind> kinds(const CallTrial& trial) {
  std::vector<cria_calls_kind> all;
  for (const ToldEvent& event : trial.told()) all.push_back(event.kind);
  return all;
}

constexpr const char* kPing = "<tool_call>\n{\"name\": \"ping\", \"arguments\": {}}\n</tool_call>";

TEST(AnswerReader, ACallInsideThinkingClosesIt) {
  const json got = read("qwen3-0.6b", std::string("<think>\nI ask. ") + kPing + "\nAfter.");
  EXPECT_EQ(got.at("reasoning"), "I ask.");
  EXPECT_EQ(got.at("calls"), json::array({call("ping", json::object())}));
  EXPECT_EQ(got.at("content"), "After.");
  EXPECT_EQ(got.at("complete"), true);
}

TEST(AnswerReader, AMarkerInsideThinkingThatStartsNoCallIsThinking) {
  const json got = read("qwen3-0.6b", "<think>I could write <tool_call> now.</think>No.");
  EXPECT_EQ(got.at("reasoning"), "I could write <tool_call> now.");
  EXPECT_EQ(got.at("content"), "No.");
}

TEST(AnswerReader, AMarkerThatIsWrittenTwiceIsTextOnce) {
  const json got = read("qwen3-0.6b", std::string("<tool_call>\n") + kPing);
  EXPECT_EQ(got.at("content"), "<tool_call>");
  EXPECT_EQ(got.at("calls").size(), 1U);
}

TEST(AnswerReader, ALongCallThatComesToNothingHidesNoMarker) {
  const std::string none = "<tool_call>{\"name\": \"" + std::string(200, 'x') + " </think>";
  const json got = read("qwen3-0.6b", "<think>" + none + std::string(kHold, 'y') + kPing);
  EXPECT_EQ(got.at("reasoning"), none.substr(0, none.size() - std::string(" </think>").size()));
  EXPECT_EQ(got.at("content"), std::string(kHold, 'y'));
  EXPECT_EQ(got.at("calls").size(), 1U);
}

TEST(AnswerReader, BlanksAroundTextAreNotToldThoseInsideAre) {
  const json got = read("qwen3-0.6b", std::string("\n a \n\n") + kPing + "\n" + kPing + "\nb \n");
  EXPECT_EQ(got.at("content"), "a \n\n\n\nb");
  EXPECT_EQ(got.at("calls").size(), 2U);
}

TEST(AnswerReader, AToolThatNobodyKnowsCountsBehindAMarkerAlone) {
  const json in_tags = read(
      "qwen3-coder-30b",
      "<tool_call>\n<function=other>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>");
  EXPECT_EQ(in_tags.at("calls"), json::array({call("other", {{"n", 3}})}));
  const char* const bare = R"({"name": "other", "parameters": {}})";
  EXPECT_EQ(read("llama-3.1-8b-instruct", bare).at("content"), bare);
  EXPECT_EQ(read("llama-4-pythonic", "[other(a=1)]").at("content"), "[other(a=1)]");
}

TEST(AnswerReader, BareFormsCountWhereAnAnswerBegins) {
  const char* const list =
      R"([{"name": "ping", "parameters": {}}, {"name": "write", "parameters": {"text": "a"}}])";
  EXPECT_EQ(read("llama-3.1-8b-instruct", list).at("calls").size(), 2U);
  const json got = read("llama-3.1-8b-instruct", std::string("Like this: ") + list);
  EXPECT_EQ(got.at("content"), std::string("Like this: ") + list);
}

TEST(AnswerReader, WhatIsNoCallIsTextWhereTheModelStopped) {
  constexpr const char* kBroken =
      "Well. <tool_call>\n{\"name\": \"ping\", \"arguments\": {\"a\": b}}";
  EXPECT_EQ(read("qwen3-0.6b", kBroken).at("content"), kBroken);
  constexpr const char* kUnfinished = "Well. <tool_call>\n{\"name\": \"ping\", \"argu";
  EXPECT_EQ(read("qwen3-0.6b", kUnfinished).at("content"), kUnfinished);
  EXPECT_EQ(read("qwen3-0.6b", kUnfinished).at("complete"), false);
  EXPECT_EQ(read("qwen3-0.6b", "5 <").at("content"), "5 <");
}

TEST(AnswerReader, OfWhatWasCutNothingIsTold) {
  const json in_call =
      read("qwen3-0.6b", "Well. <tool_call>\n{\"name\": \"ping\", \"argu", CRIA_CALLS_CUT);
  EXPECT_EQ(in_call.at("content"), "Well.");
  EXPECT_EQ(in_call.at("calls"), json::array());
  EXPECT_EQ(in_call.at("complete"), false);
  const json in_marker = read("qwen3-0.6b", "Well. <tool", CRIA_CALLS_CUT);
  EXPECT_EQ(in_marker.at("content"), "Well.");
  EXPECT_EQ(in_marker.at("complete"), false);
  EXPECT_EQ(read("qwen3-0.6b", "Well.", CRIA_CALLS_CUT).at("complete"), true);
}

TEST(AnswerReader, ThePromptMayHaveBegunTheCall) {
  const json got = read("qwen3-0.6b", "ping\", \"arguments\": {}}\n</tool_call>",
                        CRIA_CALLS_STOPPED, "<|im_start|>assistant\n<tool_call>\n{\"name\": \"");
  EXPECT_EQ(got.at("calls"), json::array({call("ping", json::object())}));
  const json none =
      read("qwen3-0.6b", "ping, he said.", CRIA_CALLS_STOPPED, "<tool_call>\n{\"name\": ");
  EXPECT_EQ(none.at("content"), "ping, he said.");
}

TEST(AnswerReader, ALongCallIsToldAsItComes) {
  const std::string text(3 * kHold, 'x');
  const std::string begin = R"(<tool_call>{"name": "write", "arguments": {"text": ")" + text;
  CallTrial trial(test::call_form_of("qwen3-0.6b"), kTools, kHold);
  trial.run({}, begin + "\"}}</tool_call>", 5, CRIA_CALLS_STOPPED, nullptr);
  EXPECT_EQ(trial.answer().at("calls"), json::array({call("write", {{"text", text}})}));
  EXPECT_GT(trial.n_events(), 3U);
  const std::vector<cria_calls_kind> open = {CRIA_CALLS_BEGIN, CRIA_CALLS_ARGUMENTS};
  trial.run({}, begin, 5, CRIA_CALLS_CUT, nullptr);
  EXPECT_EQ(kinds(trial), open);
  EXPECT_EQ(trial.ending(), CRIA_CALLS_CUT);
  trial.run({}, begin + "\": oh", 5, CRIA_CALLS_STOPPED, nullptr);
  EXPECT_EQ(kinds(trial), (std::vector<cria_calls_kind>{CRIA_CALLS_BEGIN, CRIA_CALLS_ARGUMENTS,
                                                        CRIA_CALLS_BROKEN, CRIA_CALLS_TEXT}));
  EXPECT_EQ(trial.answer().at("content"), ": oh");
  trial.run({}, begin, 5, CRIA_CALLS_STOPPED, nullptr);
  EXPECT_EQ(kinds(trial).back(), CRIA_CALLS_BROKEN);
  EXPECT_EQ(trial.ending(), CRIA_CALLS_CUT);
}

// Also where the model is said to have ended it: its bytes are text, and it is told as cut.
TEST(AnswerReader, AnAnswerThatEndsInsideACallIsCut) {
  const auto expect = [](const char* form, const std::string& answer, bool is_complete) {
    const json got = read(form, answer, CRIA_CALLS_STOPPED);
    EXPECT_EQ(got.at("complete"), is_complete) << form << ": " << answer;
    EXPECT_EQ(got.at("calls"), json::array());
    EXPECT_EQ(got.at("content"), answer.empty() ? json() : json(answer));
  };
  for (const char* part :
       {"<tool_call>", "<tool_call>ping", R"(<tool_call>{"na)", R"(<tool_call>{"name": "pi)",
        R"(<tool_call>{"name": "ping", "arguments": {"a": 1)",
        R"(See <tool_call>{"name": "ping", "arguments": {}, "x": [)"}) {
    expect("qwen3-0.6b", part, false);
  }
  for (const char* text : {"", "ping", "<tool_c", R"({"name": "ping)"}) {
    expect("qwen3-0.6b", text, true);
  }
  expect("llama-3.1-8b-instruct", R"({"name": "ping", "parameters": {"a": 1)", false);
  expect("llama-3.1-8b-instruct", R"({"name": "pi)", false);
  expect("mistral-small-3.2", "[TOOL_CALLS]pi", false);
  expect("mistral-small-3.2", "[TOOL_CALLS]ping[ARGS]{", false);
  expect("mistral-small-3.2", "Models write [TOOL_CALLS] before a call.", true);
  for (const char* text : {"{", R"({"na)", R"({"x": 1)", "[1, 2"}) {
    expect("llama-3.1-8b-instruct", text, true);
  }
}

TEST(AnswerReader, ArgumentsBeforeTheNameMustFitTheHold) {
  const auto answer = [](size_t n) {
    return R"(<tool_call>{"arguments": {"text": ")" + std::string(n, 'x') +
           R"("}, "name": "write"}</tool_call>)";
  };
  EXPECT_EQ(read("qwen3-0.6b", answer(kHold / 2)).at("calls").size(), 1U);
  const json got = read("qwen3-0.6b", answer(kHold));
  EXPECT_EQ(got.at("calls"), json::array());
  EXPECT_EQ(got.at("content"), answer(kHold));
}

std::string tagged(const std::vector<std::pair<std::string, std::string>>& values) {
  std::string answer = "<tool_call>\n<function=write>\n";
  for (const auto& [key, value] : values) {
    answer.append("<parameter=").append(key).append(">\n").append(value).append("\n</parameter>\n");
  }
  return answer + "</function>\n</tool_call>";
}

TEST(AnswerReader, TheSchemaSaysWhatValuesInTagsAre) {
  const json got = read("qwen3-coder-30b", tagged({{"text", "null"},
                                                   {"maybe", "null"},
                                                   {"lines", "[1, 'a']"},
                                                   {"unit", "2"},
                                                   {"either", "7"},
                                                   {"new", "{\"a\": None}"},
                                                   {"other", "about 3"},
                                                   {"empty", ""}}));
  const json arguments = {{"text", "null"},     {"maybe", nullptr}, {"lines", {1, "a"}},
                          {"unit", "2"},        {"either", 7},      {"new", {{"a", nullptr}}},
                          {"other", "about 3"}, {"empty", ""}};
  EXPECT_EQ(got.at("calls"), json::array({call("write", arguments)}));
}

TEST(AnswerReader, AValueInTagsLosesANewlineAtEitherEnd) {
  const json got = read("qwen3-coder-30b", tagged({{"text", "\n a\n\nb < c </parameter \n"}}));
  EXPECT_EQ(got.at("calls").at(0).at("arguments").at("text"), "\n a\n\nb < c </parameter \n");
}

TEST(AnswerReader, ALongValueInTagsIsToldAsItComes) {
  const std::string text(2 * kHold, 'x');
  const json got =
      read("qwen3-coder-30b", tagged({{"text", text}, {"lines", "[1]"}, {"maybe", text}}));
  EXPECT_EQ(got.at("calls").at(0).at("arguments"),
            (json{{"text", text}, {"lines", {1}}, {"maybe", text}}));
  std::string list = "[1";
  while (list.size() < kHold) list += ", 1";
  const json too_long = read("qwen3-coder-30b", tagged({{"lines", list + "]"}, {"unit", "1"}}));
  EXPECT_EQ(too_long.at("calls").at(0).at("arguments"),
            (json{{"lines", list + "]"}, {"unit", "1"}}));
}

TEST(AnswerReader, TagsMayStandOnOneLine) {
  const json got = read("glm-4.6",
                        "<tool_call>write<arg_key>text</arg_key><arg_value>a</arg_value>"
                        "<arg_key>unit</arg_key> <arg_value>1</arg_value></tool_call>");
  EXPECT_EQ(got.at("calls"), json::array({call("write", {{"text", "a"}, {"unit", "1"}})}));
}

TEST(AnswerReader, IdsAreThoseThatTheModelWrote) {
  const json kimi = read("kimi-k2",
                         "<|tool_calls_section_begin|><|tool_call_begin|>functions.ping:3"
                         "<|tool_call_argument_begin|>{}<|tool_call_end|>");
  EXPECT_EQ(kimi.at("calls").at(0).at("id"), "functions.ping:3");
  const json mistral = read(
      "mistral-7b-v0.3", R"([TOOL_CALLS] [{"name": "ping", "arguments": {}, "id": "a1b2c3d4e"}])");
  EXPECT_EQ(mistral.at("calls").at(0).at("id"), "a1b2c3d4e");
}

TEST(AnswerReader, ArgumentsMayBeMissingOrNull) {
  for (const char* text : {R"({"name": "ping"})", R"({"name": "ping", "arguments": null})"}) {
    const json got = read("qwen3-0.6b", std::string("<tool_call>") + text + "</tool_call>");
    EXPECT_EQ(got.at("calls"), json::array({call("ping", json::object())}));
  }
}

TEST(AnswerReader, ReaderIsUsedForOneAnswerAfterAnother) {
  CallTrial trial(test::call_form_of("qwen3-0.6b"), kTools, kHold);
  trial.run({}, "<think>cut", 1, CRIA_CALLS_CUT, nullptr);
  trial.run({}, "<tool_call>{\"name\"", 1, CRIA_CALLS_CUT, nullptr);
  trial.run({}, kPing, 1, CRIA_CALLS_STOPPED, nullptr);
  EXPECT_EQ(trial.answer().at("calls").size(), 1U);
  EXPECT_EQ(trial.told().front().call, 0U);
}

TEST(AnswerReader, PiecesAreWholeCharacters) {
  const std::vector<uint8_t> form = test::call_form_of("qwen3-0.6b");
  size_t n_bytes = 0;
  ASSERT_EQ(cria_calls_required(form.data(), form.size(), nullptr, 0, kHold, &n_bytes), CRIA_OK);
  test::AlignedMemory memory(n_bytes);
  cria_calls* calls = nullptr;
  ASSERT_EQ(
      cria_calls_make(memory.data(), n_bytes, form.data(), form.size(), nullptr, 0, kHold, &calls),
      CRIA_OK);
  const auto tell = [](void* context, const cria_calls_event* event) {
    for (size_t i = 0; i < event->n_bytes;) {
      const Utf8Char c = decode_utf8(event->text + i, event->n_bytes - i);
      EXPECT_TRUE(c.complete && c.code != kReplacementCharacter);
      i += c.n_bytes;
    }
    static_cast<std::string*>(context)->append(event->text, event->n_bytes);
  };
  std::string answer;
  for (int i = 0; i < 200; ++i) answer += "aä東🦙";
  std::string told;
  ASSERT_EQ(cria_calls_begin(calls, nullptr, 0), CRIA_OK);
  for (const char& c : answer) ASSERT_EQ(cria_calls_read(calls, &c, 1, tell, &told), CRIA_OK);
  ASSERT_EQ(cria_calls_read(calls, answer.data(), answer.size(), tell, &told), CRIA_OK);
  cria_calls_ending ending = CRIA_CALLS_CUT;
  ASSERT_EQ(cria_calls_finish(calls, CRIA_CALLS_STOPPED, tell, &told, &ending), CRIA_OK);
  EXPECT_EQ(told, answer + answer);
  EXPECT_EQ(ending, CRIA_CALLS_STOPPED);
}

}  // namespace
}  // namespace cria::calls
