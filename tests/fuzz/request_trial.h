// Requests to the server, read for a tiny model, and what is promised of them. For a source named
// *_fuzz.cpp: what reading allocates is counted.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>

#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/serve/answer_order.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/serve/parsed_json.h"
#include "platforms/hosted/serve/text_service.h"
#include "tests/fuzz/base_models.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/time_limit.h"
#include "tests/support/engine_trial.h"
#include "tests/support/failing_memory.h"

namespace cria::fuzz {

using hosted::ApiError;
using hosted::Json;

constexpr uint32_t kSessions = 2;
constexpr uint32_t kMostPrompts = 8;

// What orders are read against, as the server has it: a model file's bytes, under a name.
struct Served {
  explicit Served(const Bytes& model, const std::string& name = "served.cria")
      : trial(test::written(name, model), {.n_sessions = kSessions}) {}
  test::EngineTrial trial;
  hosted::TextService text{trial.model()};
  hosted::OrderContext context{.model = trial.model(),
                               .text = &text,
                               .engine = &trial.engine(),
                               .usual = {},
                               .model_name = "tiny",
                               .n_sessions = kSessions,
                               .most_prompts = kMostPrompts};
};

inline void check_order(const hosted::OrderContext& context, const hosted::AnswerOrder& order) {
  const uint32_t n_vocab = context.model.info().vocab_size;
  const size_t n_positions = cria_context(context.model.session());
  expect(!order.prompts.empty() && order.prompts.size() <= kMostPrompts,
         "prompts within the limit");
  for (const hosted::AnswerRequest& request : order.prompts) {
    const size_t n_most = request.embedding ? n_positions : n_positions - 1;
    expect(!request.prompt.empty() && request.prompt.size() <= n_most,
           "what is taken has room in the context");
    for (size_t i = 0; request.embedding && i < request.embedding->others.size(); ++i) {
      const std::vector<uint32_t>& text = request.embedding->others[i];
      expect(!text.empty() && text.size() <= n_most, "and so have other texts");
      for (const uint32_t token : text) expect(token < n_vocab, "tokens are the model's");
    }
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

// statuses: those of an error that the client is to blame for.
template <typename Read>
void read_or_refuse(Read read, std::initializer_list<int> statuses) {
  try {
    read();
  } catch (const ApiError& error) {
    const Json told = Json::parse(error.json(hosted::WireForm::kEvents), nullptr, false);
    expect(!told.is_discarded() && told["error"]["message"].is_string(), "an error is JSON");
    const auto message = told["error"]["message"].get<std::string>();
    expect(std::none_of(message.begin(), message.end(),
                        [](char c) { return static_cast<uint8_t>(c) < ' '; }),
           "an error is one line");
    const Json line = Json::parse(error.json(hosted::WireForm::kLines), nullptr, false);
    expect(!line.is_discarded() && line["error"].is_string(), "a line of an error is JSON");
    expect(std::find(statuses.begin(), statuses.end(), error.http_status()) != statuses.end(),
           "the client is to blame");
  }
}

// Reads a body as a style does: it is refused, or check is told the order.
template <typename Check>
void read_order(const hosted::OrderContext& context, hosted::ReadOrder read,
                const std::string& body, std::initializer_list<int> statuses, Check check) {
  const AllocationLimit memory(body.size());
  const TimeLimit time(body.size());
  read_or_refuse(
      [&] {
        const hosted::ParsedJson parsed = hosted::parse_object(body);
        check(read(context, parsed.json, body));
      },
      statuses);
}

}  // namespace cria::fuzz
