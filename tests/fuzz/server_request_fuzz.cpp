// The body of a request to the server, by anybody: read, or refused with an error of the API. Each
// is taken for a chat, a text and llama.cpp's native form, for a tiny model.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/parsed_json.h"
#include "platforms/hosted/serve/text_service.h"
#include "tests/fuzz/base_models.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/engine_trial.h"

namespace cria::fuzz {
namespace {

using hosted::ApiError;
using hosted::Json;

constexpr uint32_t kSessions = 2;
constexpr uint32_t kMostPrompts = 8;

// What orders are read against, as the server has it.
struct Served {
  test::EngineTrial trial{test::written("served.cria", base_models()[0]),
                          {.n_sessions = kSessions}};
  hosted::TextService text{trial.model()};
  hosted::OrderContext context{.model = trial.model(),
                               .text = &text,
                               .engine = &trial.engine(),
                               .usual = {},
                               .model_name = "tiny",
                               .n_sessions = kSessions,
                               .most_prompts = kMostPrompts};
};

void check_order(const hosted::OrderContext& context, const hosted::AnswerOrder& order) {
  const uint32_t n_vocab = context.model.info().vocab_size;
  const size_t n_positions = cria_context(context.model.session());
  expect(!order.prompts.empty() && order.prompts.size() <= kMostPrompts,
         "prompts within the limit");
  for (const hosted::AnswerRequest& request : order.prompts) {
    expect(!request.prompt.empty() && request.prompt.size() < n_positions,
           "what is taken has room in the context");
    for (const uint32_t token : request.prompt) expect(token < n_vocab, "tokens are the model's");
    for (const cria_logit_bias& bias : request.biases) {
      expect(bias.token < n_vocab && !std::isnan(bias.bias), "biases are the model's, and numbers");
    }
    expect(request.n_choices >= 1 && request.n_choices <= kSessions, "choices that have sessions");
  }
}

template <typename Read>
void read_or_refuse(Read read) {
  try {
    read();
  } catch (const ApiError& error) {
    const Json told = Json::parse(error.json(), nullptr, false);
    expect(!told.is_discarded() && told["error"]["message"].is_string(), "an error is JSON");
    expect(error.http_status() == 400 || error.http_status() == 413, "the client is to blame");
  }
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  static Served served;
  const std::string body(reinterpret_cast<const char*>(data), size);
  read_or_refuse([&] {
    const hosted::ParsedJson parsed = hosted::parse_object(body);
    const Json& request = parsed.json;
    for (const auto& [name, value] : request.items()) {
      const std::optional<std::string_view> raw = hosted::raw_member(body, {name});
      expect(raw.has_value(), "what was parsed is found in the text");
      expect(Json::parse(*raw, nullptr, false) == value, "a member's text is its value");
    }
    const hosted::Fields fields(request);
    read_or_refuse([&] { (void)hosted::chat_messages(request); });
    for (const auto order : {&hosted::chat_order, &hosted::text_order, &hosted::native_order}) {
      read_or_refuse([&] { check_order(served.context, order(served.context, request, body)); });
    }
    for (const char* name : {"a", "n", "seed", "stream", "temperature"}) {
      read_or_refuse([&] { (void)fields.integer(name, -1, 100); });
      read_or_refuse([&] { (void)fields.number(name, 0.0, 1.0); });
      read_or_refuse([&] { (void)fields.flag(name, false); });
      read_or_refuse([&] { (void)fields.text(name); });
    }
  });
  return 0;
}

}  // namespace cria::fuzz
