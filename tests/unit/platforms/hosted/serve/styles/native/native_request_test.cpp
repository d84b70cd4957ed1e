// What llama.cpp's requests ask of the engine, and what their answers are to tell.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/parsed_json.h"
#include "platforms/hosted/serve/styles/native/native.h"
#include "tests/support/engine_trial.h"

namespace cria::hosted {
namespace {

using nlohmann::json;

const OrderContext& context() {
  static test::EngineTrial trial(test::demo_path(), {.n_sessions = 2});
  static TextService text(trial.model());
  static const OrderContext context = {.model = trial.model(),
                                       .text = &text,
                                       .engine = &trial.engine(),
                                       .usual = {},
                                       .model_name = "demo",
                                       .n_sessions = 2,
                                       .most_prompts = 3};
  return context;
}

AnswerOrder order_of(const json& request) {
  const std::string body = request.dump();
  return native_order(context(), parse_object(body).json, body);
}

std::string blamed(const json& request) {
  try {
    (void)order_of(request);
  } catch (const ApiError& error) {
    return json::parse(error.json(WireForm::kEvents))["error"]["param"];
  }
  return {};
}

TEST(NativeRequest, AListOfTextsIsThatManyPrompts) {
  EXPECT_EQ(order_of({{"prompt", "Once"}}).prompts.size(), 1u);
  EXPECT_EQ(order_of({{"prompt", {"Once", "a time"}}}).prompt_sizes.size(), 2u);
  const AnswerOrder mixed = order_of({{"prompt", json::array({5, "a time", 7})}});
  ASSERT_EQ(mixed.prompts.size(), 1u);
  EXPECT_EQ(mixed.prompts[0].prompt.front(), 5u);
  EXPECT_EQ(mixed.prompts[0].prompt.back(), 7u);
  EXPECT_EQ(blamed({{"prompt", {"a", "b", "c", "d"}}}), "prompt");
}

TEST(NativeRequest, APromptIsToldUnlessOtherFieldsAreWanted) {
  EXPECT_EQ(order_of({{"prompt", "Once"}}).prompt_texts.size(), 1u);
  EXPECT_EQ(order_of({{"prompt", "Once"}, {"response_fields", {"prompt"}}}).prompt_texts.size(),
            1u);
  const json content = {{"prompt", "Once"}, {"response_fields", {"content", "content"}}};
  EXPECT_TRUE(order_of(content).prompt_texts.empty());
  EXPECT_EQ(order_of(content).response_fields.size(), 1u);
}

TEST(NativeRequest, SettingsAreLookedUpOnce) {
  const AnswerOrder order = order_of({{"prompt", "Once"},
                                      {"n_predict", 3},
                                      {"seed", 8},
                                      {"response_fields", {"generation_settings/seed"}}});
  EXPECT_EQ(order.response_fields.at(0).setting, "8");
  EXPECT_EQ(json::parse(order.settings.text())["n_predict"], 3);
  EXPECT_EQ(order.prompts[0].max_tokens, 3u);
}

}  // namespace
}  // namespace cria::hosted
