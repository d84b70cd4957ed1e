// What Ollama's requests ask of the engine, and how those that ask for something else are refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/parsed_json.h"
#include "platforms/hosted/serve/styles/ollama/ollama.h"
#include "platforms/hosted/serve/styles/ollama/ollama_model.h"
#include "platforms/hosted/serve/styles/openai/openai.h"
#include "tests/support/engine_trial.h"

namespace cria::hosted {
namespace {

using nlohmann::json;

const OrderContext& context() {
  static test::EngineTrial trial(test::demo_path(), {.n_sessions = 2});
  static TextService text(trial.model());
  static const OrderContext context = [] {
    OrderContext made = {.model = trial.model(),
                         .text = &text,
                         .engine = &trial.engine(),
                         .usual = {},
                         .model_name = "demo.cria",
                         .n_sessions = 2,
                         .most_prompts = 4};
    made.usual.temperature = 0.8f;
    made.usual.repeat_penalty = 1.25f;
    return made;
  }();
  return context;
}

AnswerOrder order_of(ReadOrder read, json request) {
  if (!request.contains("model")) request["model"] = "demo";
  const std::string body = request.dump();
  return read(context(), parse_object(body).json, body);
}

AnswerOrder chat(json request) {
  if (!request.contains("messages")) {
    request["messages"] = json::parse(R"([{"role": "user", "content": "hello"}])");
  }
  return order_of(&ollama_chat_order, std::move(request));
}

AnswerOrder generate(json request) {
  if (!request.contains("prompt")) request["prompt"] = "Once upon a time";
  return order_of(&ollama_generate_order, std::move(request));
}

AnswerRequest with_options(json options) { return chat({{"options", options}}).prompts.at(0); }

// "404 model 'x' not found"; empty: it is taken.
template <typename Read>
std::string refusal(Read read) {
  try {
    (void)read();
  } catch (const ApiError& error) {
    const json told = json::parse(error.json(WireForm::kLines));
    EXPECT_EQ(told.size(), 1u);
    return std::to_string(error.http_status()) + " " + told["error"].get<std::string>();
  }
  return {};
}

TEST(OllamaRequest, AnyNameOfTheModelIsTaken) {
  for (const char* name : {"demo", "demo:latest", "demo.cria", "demo.cria:latest", "DEMO:Latest"}) {
    EXPECT_EQ(chat({{"model", name}}).model, name);
  }
  EXPECT_EQ(ollama_name("org/demo.cria"), "org/demo:latest");
  EXPECT_EQ(ollama_name("host:80/demo"), "host:80/demo:latest");
  EXPECT_EQ(ollama_name("llama3.2:1b"), "llama3.2:1b");
  EXPECT_EQ(ollama_name(".cria"), ".cria:latest");
  for (const char* name : {"", "demo:1b", "demo2", "emo", "demo/demo", ":latest"}) {
    EXPECT_EQ(refusal([&] {
                return chat({{"model", name}});
              }),
              "404 model '" + std::string(name) + "' not found; this server has 'demo.cria'");
  }
  EXPECT_EQ(refusal([] {
              return chat({{"model", nullptr}});
            }),
            "404 model '' not found; this server has 'demo.cria'");
}

TEST(OllamaRequest, AnswersAreStreamsUnlessAskedOtherwise) {
  EXPECT_TRUE(chat({}).streams);
  EXPECT_TRUE(generate({}).streams);
  EXPECT_FALSE(chat({{"stream", false}}).streams);
  EXPECT_EQ(chat({}).form, WireForm::kLines);
}

TEST(OllamaRequest, OptionsAreThoseOfOtherRequests) {
  const AnswerRequest usual = with_options({});
  EXPECT_EQ(usual.max_tokens, std::nullopt);
  EXPECT_FLOAT_EQ(usual.sampling.temperature, 0.8f);
  const AnswerRequest answer = with_options({{"num_ctx", 1 << 20},
                                             {"num_predict", 12},
                                             {"seed", 42},
                                             {"temperature", 0},
                                             {"top_k", 7},
                                             {"top_p", 0.5},
                                             {"min_p", 0.25},
                                             {"repeat_penalty", 1.5},
                                             {"repeat_last_n", 32},
                                             {"mirostat", "what is unknown"},
                                             {"stop", {"a", "b"}}});
  EXPECT_EQ(answer.max_tokens, 12u);
  EXPECT_EQ(answer.seed, 42u);
  EXPECT_FLOAT_EQ(answer.sampling.temperature, 0.0f);
  EXPECT_EQ(answer.sampling.top_k, 7u);
  EXPECT_FLOAT_EQ(answer.sampling.top_p, 0.5f);
  EXPECT_FLOAT_EQ(answer.sampling.min_p, 0.25f);
  EXPECT_FLOAT_EQ(answer.sampling.repeat_penalty, 1.5f);
  EXPECT_EQ(answer.stops->size(), 2u);
  for (const int none : {0, -1, -2}) {
    EXPECT_EQ(with_options({{"num_predict", none}}).max_tokens, std::nullopt);
  }
  EXPECT_FLOAT_EQ(with_options({{"repeat_last_n", 0}}).sampling.repeat_penalty, 1.0f);
  EXPECT_FLOAT_EQ(with_options({{"repeat_last_n", -1}}).sampling.repeat_penalty, 1.25f);
}

TEST(OllamaRequest, OptionsOfAnotherKindAreToldByName) {
  const json wrong = json::parse(R"({"num_ctx": "4096", "num_predict": 1.5, "seed": "a",
      "temperature": "hot", "top_k": [1], "top_p": 2, "repeat_last_n": -2, "stop": 1})");
  for (const auto& [name, value] : wrong.items()) {
    const std::string told = refusal([&] { return with_options({{name, value}}); });
    EXPECT_TRUE(told.starts_with("400 " + name)) << told;
  }
  EXPECT_EQ(refusal([] { return chat({{"options", 1}}); }), "400 options must be an object");
}

TEST(OllamaRequest, AFormatIsASchema) {
  EXPECT_EQ(chat({}).prompts[0].guide, nullptr);
  EXPECT_EQ(chat({{"format", ""}}).prompts[0].guide, nullptr);
  EXPECT_NE(chat({{"format", "json"}}).prompts[0].guide, nullptr);
  EXPECT_NE(generate({{"format", {{"type", "object"}}}}).prompts[0].guide, nullptr);
  EXPECT_EQ(refusal([] {
              return chat({{"format", "yaml"}});
            }),
            "400 invalid format: yaml; expected \"json\" or a valid JSON Schema object");
  EXPECT_EQ(refusal([] {
              return chat({{"format", 1}});
            }),
            "400 invalid format: 1; expected \"json\" or a valid JSON Schema object");
  const std::string told = refusal([] { return chat({{"format", {{"type", "date"}}}}); });
  EXPECT_TRUE(told.starts_with("400 format: ")) << told;
}

TEST(OllamaRequest, AModelThatCannotThinkIsNotAskedTo) {
  EXPECT_EQ(refusal([] { return chat({{"think", false}}); }), "");
  for (const json& think : {json(true), json("low"), json("high")}) {
    EXPECT_EQ(refusal([&] {
                return chat({{"think", think}});
              }),
              "400 \"demo\" does not support thinking");
  }
  EXPECT_EQ(refusal([] {
              return generate({{"think", "much"}});
            }),
            "400 think must be true, false, \"low\", \"medium\" or \"high\"");
}

TEST(OllamaRequest, WithoutATextTheModelIsAskedWhetherItIsThere) {
  const auto told = [](const AnswerOrder& order) {
    EXPECT_TRUE(order.prompts.empty());
    json answer = json::parse(order.whole_answer);
    EXPECT_EQ(answer["model"], "demo");
    EXPECT_TRUE(answer.contains("created_at"));
    EXPECT_EQ(answer["done"], true);
    return answer;
  };
  const json none = json::array();
  const json chat_answer = told(chat({{"messages", none}}));
  EXPECT_EQ(chat_answer["done_reason"], "load");
  EXPECT_EQ(chat_answer["message"], (json{{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(told(generate({{"prompt", ""}}))["response"], "");
  for (const json& zero : {json(0), json(0.0), json("0"), json("0s"), json("0m0s")}) {
    EXPECT_EQ(told(chat({{"messages", none}, {"keep_alive", zero}}))["done_reason"], "unload");
  }
  for (const json& time : {json(-1), json(300), json("5m"), json("1h0m"), json("-1")}) {
    EXPECT_EQ(told(chat({{"messages", none}, {"keep_alive", time}}))["done_reason"], "load");
    EXPECT_FALSE(chat({{"keep_alive", time}}).prompts.empty());
  }
  for (const json& wrong : {json("soon"), json(true), json::array()}) {
    EXPECT_TRUE(refusal([&] {
                  return chat({{"keep_alive", wrong}});
                }).starts_with("400 keep_alive"));
  }
}

TEST(OllamaRequest, AChatHasTheTokensOfOpenAis) {
  const json messages = json::parse(R"([{"role": "system", "content": "Be brief."},
      {"role": "user", "content": "hi", "images": []},
      {"role": "assistant", "content": "Hello.", "thinking": "A greeting.", "tool_calls": []},
      {"role": "user", "content": "Who are you?"}])");
  EXPECT_EQ(chat({{"messages", messages}}).prompts[0].prompt,
            order_of(&chat_order, {{"messages", messages}}).prompts[0].prompt);
  const AnswerOrder asked = generate({{"prompt", "Who are you?"}, {"system", "Be brief."}});
  const json same = json::parse(R"([{"role": "system", "content": "Be brief."},
      {"role": "user", "content": "Who are you?"}])");
  EXPECT_EQ(asked.prompts[0].prompt, chat({{"messages", same}}).prompts[0].prompt);
}

TEST(OllamaRequest, ARawPromptIsContinued) {
  const std::string text = "<|begin_of_text|>Once upon a time";
  const std::vector<uint32_t> raw = generate({{"prompt", text}, {"raw", true}}).prompts[0].prompt;
  EXPECT_EQ(raw, context().text->encode(text, CRIA_ENCODE_SPECIAL | CRIA_ENCODE_PARSE).tokens);
  EXPECT_EQ(refusal([] {
              return generate({{"raw", true}, {"system", "Be brief."}});
            }),
            "400 raw mode does not support template, system, or context");
}

TEST(OllamaRequest, WhatWouldChangeAnAnswerIsRefusedByName) {
  const json tools = json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
  EXPECT_EQ(refusal([&] {
              return chat({{"tools", tools}});
            }),
            "400 the model calls no tools: its chat template shows no known form of calls");
  EXPECT_EQ(refusal([&] { return generate({{"tools", tools}}); }), "400 tools is not supported");
  EXPECT_EQ(refusal([] { return chat({{"tools", json::array()}}); }), "");
  const json refused = json::parse(R"({"suffix": "end", "images": ["aGk="],
      "template": "{{ .Prompt }}", "context": [1, 2]})");
  for (const auto& [name, value] : refused.items()) {
    EXPECT_EQ(refusal([&] {
                return generate({{name, value}});
              }),
              "400 " + name + " is not supported");
  }
  EXPECT_EQ(refusal([] { return generate({{"images", json::array()}, {"suffix", ""}}); }), "");
  const auto refused_message = [](const char* message) {
    return refusal([&] { return chat({{"messages", json::array({json::parse(message)})}}); });
  };
  EXPECT_EQ(refused_message(R"({"role": "user", "content": "a", "images": ["aGk="]})"),
            "400 message 1 has images; this model reads only text");
  EXPECT_EQ(refused_message(R"({"role": "tool", "content": "3", "tool_name": "add"})"),
            "400 the chat template takes no messages in such an order");
  EXPECT_EQ(refused_message(R"({"role": "user", "content": 3})"),
            "400 message 1 has a content that is neither a text nor a list of parts");
  EXPECT_EQ(refused_message(R"({"content": "a"})"), "400 message 1 has no role");
  EXPECT_EQ(refused_message("1"), "400 message 1 is not an object with role and content");
}

TEST(OllamaModel, SizesAreReadAtAGlance) {
  EXPECT_EQ(ollama_parameter_size(999), "999");
  EXPECT_EQ(ollama_parameter_size(260'000), "260.0K");
  EXPECT_EQ(ollama_parameter_size(134'515'008), "134.5M");
  EXPECT_EQ(ollama_parameter_size(1'235'814'400), "1.2B");
  EXPECT_EQ(ollama_parameter_size(1'000'000'000'000), "1000.0B");
}

}  // namespace
}  // namespace cria::hosted
