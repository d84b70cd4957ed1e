// A request for answers, read: what the engine is to do, and how it is told.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "platforms/hosted/engine/engine.h"
#include "platforms/hosted/serve/json_fields.h"
#include "platforms/hosted/serve/json_text.h"
#include "platforms/hosted/serve/text_service.h"
#include "platforms/hosted/serve/wire_form.h"
#include "platforms/hosted/session/answer_parts.h"

namespace cria::hosted {

class AnswerWriter;
struct AnswerOrder;
struct OrderContext;

// How a style reads a request, which body holds, and writes what is made for it. Throws ApiError.
using ReadOrder = AnswerOrder (*)(const OrderContext& context, const Json& request,
                                  const std::string& body);
using MakeWriter = std::unique_ptr<AnswerWriter> (*)(AnswerOrder order, const TextService* text);

// A member of an answer that was asked for: "a/b" is the member b of a.
struct ResponseField {
  std::string path;
  std::string setting;  // of generation_settings: its JSON
};

// Of an answer that is embeddings: its texts are shared out to requests of neighbours.
struct EmbeddingShape {
  uint32_t width = 0;  // values of each; 0: they are none
  size_t n_requests = 0;
};

struct AnswerOrder {
  MakeWriter make_writer = nullptr;
  WireForm form = WireForm::kEvents;
  std::string whole_answer;            // where there is nothing to make: no prompts
  std::vector<AnswerRequest> prompts;  // all but their tokens alike; they leave for the engine
  std::vector<uint32_t> prompt_sizes;  // tokens of each; of each text where they are to be embedded
  EmbeddingShape embedding;
  std::vector<JsonText> prompt_texts;  // of each, where the answer tells them; else none
  uint32_t n_choices = 1;              // of each prompt
  std::optional<uint32_t> n_top;       // as the engine has it
  std::string model;                   // what the answer calls it
  std::shared_ptr<void> in_hand;       // as long as it has not begun
  bool streams = false;
  bool includes_usage = false;
  bool tells_timings = false;  // with every piece
  bool returns_tokens = false;
  // How answers are told in parts; null: only as text.
  std::shared_ptr<const CallReading> reading;
  bool calls_are_functions = false;  // as OpenAI had them before there were tools
  // What the answer tells again of the request, in the words of its style.
  JsonText settings = nullptr;
  std::vector<ResponseField> response_fields;  // of llama.cpp's answers: each path once; none: all

  void add_prompt(AnswerRequest prompt) {
    n_choices = prompt.n_choices;
    n_top = prompt.n_top;
    prompt_sizes.push_back(static_cast<uint32_t>(prompt.prompt.size()));
    prompts.push_back(std::move(prompt));
  }
  // Whether the answer tells more of its tokens than their text.
  [[nodiscard]] bool tells_tokens() const { return returns_tokens || n_top; }
};

// What an answer holds until its client takes it; that of a stream, of what is not yet taken.
constexpr size_t kMostAnswerBytes = size_t{16} << 20;

// Of n_tokens of an answer with so many likeliest ones.
constexpr size_t bytes_of_tokens(size_t n_tokens, size_t n_top) {
  constexpr size_t kHeapBytes = 16;  // of an allocation
  return n_tokens *
         (sizeof(DrawnToken) + (n_top > 0 ? n_top * sizeof(TokenLogprob) + kHeapBytes : 0));
}

// What requests are read against.
struct OrderContext {
  const ModelSession& model;
  TextService* text;
  Engine* engine;
  cria_sampling usual;  // where a request says nothing
  std::string model_name;
  uint32_t n_sessions;
  uint32_t most_prompts;  // of one request
};

}  // namespace cria::hosted
