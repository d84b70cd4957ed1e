// The body of a request to the server, by anybody: read, or refused with an error of the API. Each
// is taken for a chat, a text and llama.cpp's native form, for a tiny model. What reading it
// allocates is counted: a server reads for anybody.
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/parsed_json.h"
#include "platforms/hosted/serve/styles/native/native.h"
#include "platforms/hosted/serve/styles/openai/openai.h"
#include "platforms/hosted/serve/text_service.h"
#include "tests/fuzz/base_models.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/time_limit.h"
#include "tests/support/engine_trial.h"
#include "tests/support/failing_memory.h"

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
    for (size_t i = 0; request.biases != nullptr && i < request.biases->size(); ++i) {
      const cria_logit_bias& bias = (*request.biases)[i];
      expect(bias.token < n_vocab && !std::isnan(bias.bias), "biases are the model's, and numbers");
    }
    expect(request.n_choices >= 1 && request.n_choices <= kSessions, "choices that have sessions");
  }
}

// Holds what this thread allocates until the limit ends against docs/security.md, what it frees
// again included.
class AllocationLimit {
 public:
  explicit AllocationLimit(size_t n_bytes)
      : most_(kRequestBytes + kBytesOfAByte * n_bytes), before_(test::n_allocated_bytes) {}
  ~AllocationLimit() {
    expect(test::n_allocated_bytes - before_ <= most_,
           "reading a request allocates in proportion to its bytes");
  }
  AllocationLimit(const AllocationLimit&) = delete;
  AllocationLimit& operator=(const AllocationLimit&) = delete;

 private:
  static constexpr uint64_t kRequestBytes = uint64_t{64} << 10;
  static constexpr uint64_t kBytesOfAByte = 128;

  uint64_t most_;
  uint64_t before_;
};

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
    for (const char* name : {"a", "n", "seed", "stream", "temperature"}) {
      read_or_refuse([&] { (void)fields.integer(name, -1, 100); });
      read_or_refuse([&] { (void)fields.number(name, 0.0, 1.0); });
      read_or_refuse([&] { (void)fields.flag(name, false); });
      read_or_refuse([&] { (void)fields.text(name); });
    }
  });
  for (const auto order : {&hosted::chat_order, &hosted::text_order, &hosted::native_order}) {
    const AllocationLimit memory(size);
    const TimeLimit time(size);
    read_or_refuse([&] {
      const hosted::ParsedJson parsed = hosted::parse_object(body);
      check_order(served.context, order(served.context, parsed.json, body));
    });
  }
  return 0;
}

}  // namespace cria::fuzz
