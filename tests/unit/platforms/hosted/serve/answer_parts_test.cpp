// Thinking and calls in the words of both styles: whole answers, and streams cut anywhere.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "platforms/hosted/serve/answer_writer.h"
#include "platforms/hosted/serve/styles/ollama/ollama.h"
#include "platforms/hosted/serve/styles/openai/openai.h"
#include "tests/support/call_trial.h"

namespace cria::hosted {
namespace {

constexpr const char* kTools =
    R"([{"type":"function","function":{"name":"add","parameters":{"type":"object","properties":{)"
    R"("a":{"type":"integer"},"b":{"type":"integer"}}}}}])";
constexpr const char* kTwoCalls =
    "<think>\nSums.\n</think>\n\nI add.\n<tool_call>\n{\"name\": \"add\", \"arguments\": "
    "{\"a\": 7, \"b\": 8}}\n</tool_call>\n<tool_call>\n{\"name\": \"add\", \"arguments\": "
    "{\"a\": 1}}\n</tool_call>";

struct Asked {
  bool takes_calls = true;
  bool streams = false;
  bool are_functions = false;
  AnswerEnd end = AnswerEnd::kEndToken;
};

AnswerOrder order_of(const Asked& asked, WireForm form) {
  const std::vector<uint8_t> stored = test::call_form_of("qwen3-0.6b");
  auto writing = std::make_shared<CallWriting>();
  writing->format.assign(stored.begin(), stored.end());
  auto reading = std::make_shared<CallReading>();
  reading->writing = writing;
  reading->tools = kTools;
  reading->opened = "<|im_end|>\n<|im_start|>assistant\n";
  reading->takes_calls = asked.takes_calls;
  AnswerOrder order;
  order.form = form;
  order.prompt_sizes = {1};
  order.model = "m";
  order.streams = asked.streams;
  order.calls_are_functions = asked.are_functions;
  order.reading = std::move(reading);
  return order;
}

AnswerSummary summary_of(AnswerEnd end) {
  AnswerSummary summary = {};
  summary.end = end;
  return summary;
}

AnswerPiece piece_of(const std::string& text) {
  AnswerPiece piece = {};
  piece.text = text;
  return piece;
}

// The lines of a stream, or the one answer.
std::vector<nlohmann::json> told(AnswerWriter* writer, const std::string& answer, size_t step,
                                 AnswerEnd end) {
  std::string text;
  for (size_t at = 0; at < answer.size(); at += step) {
    text += writer->take(0, piece_of(answer.substr(at, step)), 1.0);
  }
  text += writer->end(0, summary_of(end));
  if (!writer->streams()) {
    while (writer->next_of_whole(&text)) {
    }
  }
  std::vector<nlohmann::json> objects;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end_of_line = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end_of_line - begin);
    begin = end_of_line + 1;
    if (line.starts_with("event: ")) continue;
    if (line.starts_with("data: ")) line.erase(0, 6);
    if (!line.empty()) objects.push_back(nlohmann::json::parse(line));
  }
  return objects;
}

std::vector<nlohmann::json> openai(const std::string& answer, const Asked& asked,
                                   size_t step = 1 << 20) {
  const auto writer = make_chat_writer(order_of(asked, WireForm::kEvents), nullptr);
  return told(writer.get(), answer, step, asked.end);
}

std::vector<nlohmann::json> ollama(const std::string& answer, const Asked& asked,
                                   size_t step = 1 << 20) {
  const auto writer = make_ollama_chat_writer(order_of(asked, WireForm::kLines), nullptr);
  return told(writer.get(), answer, step, asked.end);
}

std::vector<nlohmann::json> responses(const std::string& answer, const Asked& asked,
                                      size_t step = 1 << 20) {
  AnswerOrder order = order_of(asked, WireForm::kEvents);
  order.settings = JsonText::object({{"top_p", 1}});
  const auto writer = make_response_writer(std::move(order), nullptr);
  return told(writer.get(), answer, step, asked.end);
}

// Without what is made up for each answer.
nlohmann::json items_of(nlohmann::json response) {
  for (nlohmann::json& item : response["output"]) {
    item.erase("id");
    item.erase("call_id");
  }
  return response["output"];
}

TEST(AnswerParts, AResponsesItemsAreThem) {
  const nlohmann::json whole = responses(kTwoCalls, {}).at(0);
  EXPECT_EQ(whole["status"], "completed");
  EXPECT_EQ(whole["top_p"], 1);
  const nlohmann::json items = items_of(whole);
  ASSERT_EQ(items.size(), 4u);
  EXPECT_EQ(items[0]["type"], "reasoning");
  EXPECT_EQ(items[0]["content"][0]["text"], "Sums.");
  EXPECT_EQ(items[1]["content"][0]["text"], "I add.");
  EXPECT_EQ(items[2]["name"], "add");
  EXPECT_EQ(items[2]["arguments"], R"({"a":7,"b":8})");
  EXPECT_EQ(items[3]["arguments"], R"({"a":1})");
  for (const size_t step : {1, 2, 7, 64, 1 << 20}) {
    Asked asked = {};
    asked.streams = true;
    std::vector<std::string> deltas;
    size_t n_events = 0;
    nlohmann::json last;
    for (const nlohmann::json& event : responses(kTwoCalls, asked, step)) {
      EXPECT_EQ(event["sequence_number"], n_events++);
      deltas.resize(std::max<size_t>(deltas.size(), event.value("output_index", 0) + 1));
      if (event.contains("delta")) deltas.at(event["output_index"]) += event["delta"];
      last = event;
    }
    EXPECT_EQ(last["type"], "response.completed");
    EXPECT_EQ(items_of(last["response"]), items) << step;
    EXPECT_EQ(deltas,
              (std::vector<std::string>{"Sums.", "I add.", R"({"a":7,"b":8})", R"({"a":1})"}));
  }
}

TEST(AnswerParts, AResponseThatIsCutHasItsPieces) {
  const std::string cut = std::string(kTwoCalls).substr(0, 150);
  Asked asked = {true, false, false, AnswerEnd::kLimit};
  const nlohmann::json whole = responses(cut, asked).at(0);
  EXPECT_EQ(whole["status"], "incomplete");
  EXPECT_EQ(whole["output"].size(), 3u);  // the whole call
  asked.streams = true;
  const nlohmann::json last = responses(cut, asked, 5).back();
  EXPECT_EQ(last["type"], "response.incomplete");
  const nlohmann::json& items = last["response"]["output"];
  EXPECT_EQ(items.back()["status"], items.size() == 3 ? "completed" : "incomplete");
  const nlohmann::json empty = responses("", {}).at(0);
  EXPECT_EQ(empty["output"][0]["content"][0]["text"], "");
}

TEST(AnswerParts, OpenAisMessageHasThem) {
  const nlohmann::json choice = openai(kTwoCalls, {}).at(0)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const nlohmann::json& message = choice["message"];
  EXPECT_EQ(message["content"], "I add.");
  EXPECT_EQ(message["reasoning_content"], "Sums.");
  ASSERT_EQ(message["tool_calls"].size(), 2u);
  const nlohmann::json& call = message["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["id"].get<std::string>().size(), 9u);
  EXPECT_NE(call["id"], message["tool_calls"][1]["id"]);
  EXPECT_EQ(call["function"]["name"], "add");
  EXPECT_EQ(call["function"]["arguments"], R"({"a":7,"b":8})");
}

TEST(AnswerParts, AMessageOfCallsAloneHasNoContent) {
  const nlohmann::json choice =
      openai("<tool_call>{\"name\":\"add\",\"arguments\":{}}</tool_call>", {}).at(0)["choices"][0];
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], "{}");
  EXPECT_FALSE(choice["message"].contains("reasoning_content"));
}

TEST(AnswerParts, OpenAisStreamJoinsToTheMessage) {
  const nlohmann::json whole = openai(kTwoCalls, {}).at(0)["choices"][0]["message"];
  for (const size_t step : {1, 2, 7, 64, 1 << 20}) {
    std::string text;
    std::string thinking;
    std::string reason;
    std::vector<std::string> names;
    std::vector<std::string> arguments;
    Asked asked = {};
    asked.streams = true;
    for (const nlohmann::json& event : openai(kTwoCalls, asked, step)) {
      const nlohmann::json& choice = event["choices"][0];
      const nlohmann::json& delta = choice["delta"];
      if (delta.contains("content") && !delta["content"].is_null()) text += delta["content"];
      thinking += delta.value("reasoning_content", "");
      if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
      if (!delta.contains("tool_calls")) continue;
      ASSERT_EQ(delta["tool_calls"].size(), 1u);  // some clients read no other
      const nlohmann::json& call = delta["tool_calls"][0];
      const size_t index = call["index"];
      ASSERT_LE(index, names.size());
      if (index == names.size()) {
        EXPECT_FALSE(call["id"].get<std::string>().empty());
        EXPECT_EQ(call["type"], "function");
        EXPECT_EQ(call["function"]["arguments"], "");
        names.push_back(call["function"]["name"]);
        arguments.emplace_back();
      }
      arguments[index] += call["function"]["arguments"];
    }
    EXPECT_EQ(text, whole["content"]) << step;
    EXPECT_EQ(thinking, whole["reasoning_content"]) << step;
    EXPECT_EQ(reason, "tool_calls");
    EXPECT_EQ(names, (std::vector<std::string>{"add", "add"}));
    EXPECT_EQ(arguments, (std::vector<std::string>{R"({"a":7,"b":8})", R"({"a":1})"}));
  }
}

TEST(AnswerParts, WhatIsCutEndsWithLength) {
  const std::string cut = std::string(kTwoCalls).substr(0, 150);
  const nlohmann::json choice =
      openai(cut, {true, false, false, AnswerEnd::kLimit}).at(0)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u);  // the whole one
}

TEST(AnswerParts, WithoutToolsACallIsText) {
  Asked asked = {};
  asked.takes_calls = false;
  const nlohmann::json choice = openai(kTwoCalls, asked).at(0)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_NE(choice["message"]["content"].get<std::string>().find("<tool_call>"), std::string::npos);
  EXPECT_EQ(choice["message"]["reasoning_content"], "Sums.");
}

TEST(AnswerParts, FunctionsAreWhatToolsWere) {
  Asked asked = {};
  asked.are_functions = true;
  const std::string answer = "<tool_call>{\"name\":\"add\",\"arguments\":{\"a\":1}}</tool_call>";
  const nlohmann::json choice = openai(answer, asked).at(0)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "function_call");
  EXPECT_EQ(choice["message"]["function_call"],
            (nlohmann::json{{"name", "add"}, {"arguments", R"({"a":1})"}}));
  asked.streams = true;
  std::string name;
  std::string arguments;
  for (const nlohmann::json& event : openai(answer, asked, 3)) {
    const nlohmann::json& delta = event["choices"][0]["delta"];
    if (!delta.contains("function_call")) continue;
    name += delta["function_call"].value("name", "");
    arguments += delta["function_call"]["arguments"];
  }
  EXPECT_EQ(name, "add");
  EXPECT_EQ(arguments, R"({"a":1})");
}

TEST(AnswerParts, OllamaTellsArgumentsAsObjects) {
  const nlohmann::json answer = ollama(kTwoCalls, {}).at(0);
  EXPECT_EQ(answer["done_reason"], "stop");
  EXPECT_EQ(answer["message"]["content"], "I add.");
  EXPECT_EQ(answer["message"]["thinking"], "Sums.");
  ASSERT_EQ(answer["message"]["tool_calls"].size(), 2u);
  EXPECT_EQ(answer["message"]["tool_calls"][0]["function"]["arguments"],
            (nlohmann::json{{"a", 7}, {"b", 8}}));
  for (const size_t step : {1, 5, 1 << 20}) {
    Asked asked = {};
    asked.streams = true;
    std::string text;
    std::string thinking;
    nlohmann::json calls = nlohmann::json::array();
    const std::vector<nlohmann::json> lines = ollama(kTwoCalls, asked, step);
    for (const nlohmann::json& line : lines) {
      const nlohmann::json& message = line["message"];
      text += message["content"];
      thinking += message.value("thinking", "");
      if (message.contains("tool_calls")) calls.push_back(message["tool_calls"].at(0));
    }
    EXPECT_EQ(text, "I add.");
    EXPECT_EQ(thinking, "Sums.");
    EXPECT_EQ(calls, answer["message"]["tool_calls"]) << step;
    EXPECT_EQ(lines.back()["done"], true);
  }
}

}  // namespace
}  // namespace cria::hosted
