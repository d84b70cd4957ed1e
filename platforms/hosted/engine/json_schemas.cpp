#include "platforms/hosted/engine/json_schemas.h"

#include <algorithm>
#include <utility>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/session/json_problem.h"

namespace cria::hosted {
namespace {

// cria_json.h takes null for no schema.
const char* data_of(const std::string& schema) { return schema.empty() ? nullptr : schema.data(); }

}  // namespace

JsonSchema::JsonSchema(size_t n_bytes, const cria_json_vocabulary* vocabulary,
                       const std::string& schema, cria_json_problem* problem)
    : memory_(aligned_bytes(n_bytes)),
      status_(cria_json_make(memory_.get(), n_bytes, vocabulary, data_of(schema), schema.size(),
                             &json_, problem)) {}

cria_status JsonSchema::begin(State* state) { return cria_json_begin(json_, &state->document); }

cria_status JsonSchema::mask(const State& state, std::span<float> logits,
                             cria_json_stop_fn wants_stop, void* context) {
  cria_json_watch(json_, wants_stop, context);
  const cria_status status = cria_json_mask(json_, &state.document, logits.data(), logits.size());
  cria_json_watch(json_, nullptr, nullptr);
  return status;
}

cria_status JsonSchema::accept(State* state, uint32_t token) {
  return cria_json_accept(json_, &state->document, token);
}

AnswerGuide::Progress JsonSchema::progress(const State& state) {
  switch (cria_json_progress_of(json_, &state.document)) {
    case CRIA_JSON_OPEN:
      return Progress::kOpen;
    case CRIA_JSON_CLOSED:
      return Progress::kClosed;
    default:
      return Progress::kWhole;
  }
}

JsonSchemas::JsonSchemas(const ModelSession& model, size_t max_schema_bytes)
    : max_schema_bytes_(max_schema_bytes) {
  size_t n_bytes = 0;
  const cria_status status = cria_json_vocabulary_required(model.model(), &n_bytes);
  if (status == CRIA_NO_TOKENIZER || status == CRIA_UNSUPPORTED) return;
  model.check(status);
  memory_.emplace(n_bytes);
  model.check(cria_json_make_vocabulary(memory_->data(), n_bytes, model.model(), &vocabulary_));
}

uint64_t JsonSchemas::n_bytes() const { return memory_ ? memory_->size_bytes() : 0; }

bool JsonSchemas::fits(size_t n_bytes, const char* what, std::string* problem) const {
  if (n_bytes <= max_schema_bytes_) return true;
  *problem = text_of("%s %zu bytes of memory, more than the %zu that one may take", what, n_bytes,
                     max_schema_bytes_);
  return false;
}

std::shared_ptr<JsonSchema> JsonSchemas::compile(const std::string& schema,
                                                 std::string* problem) const {
  if (vocabulary_ == nullptr) {
    *problem = kNoJsonTokens;
    return nullptr;
  }
  size_t n_needed = 0;
  cria_json_problem found = {};
  cria_status status =
      cria_json_required(vocabulary_, data_of(schema), schema.size(), &n_needed, &found);
  if (status == CRIA_OK && !fits(n_needed, "the schema takes", problem)) return nullptr;
  if (status == CRIA_OK) {
    auto made = std::make_shared<JsonSchema>(n_needed, vocabulary_, schema, &found);
    if (made->json() != nullptr) return made;
    status = made->status();
  }
  *problem = found.reason != nullptr ? text_of_problem(found, schema)
                                     : std::string("the schema: ") + cria_status_message(status);
  return nullptr;
}

std::shared_ptr<CallGrammar> JsonSchemas::compile(const cria_call_order& order, std::string opened,
                                                  std::string* problem) const {
  if (vocabulary_ == nullptr) {
    *problem = kNoJsonTokens;
    return nullptr;
  }
  size_t n_needed = 0;
  cria_call_problem found = {};
  cria_status status = cria_call_grammar_required(vocabulary_, &order, &n_needed, &found);
  if (status == CRIA_OK && !fits(n_needed, "the tools: their schemas take", problem)) {
    return nullptr;
  }
  if (status == CRIA_OK) {
    auto made =
        std::make_shared<CallGrammar>(n_needed, vocabulary_, order, std::move(opened), &found);
    if (made->is_made()) return made;
    status = made->status();
  }
  *problem = found.schema.reason != nullptr
                 ? text_of_problem(found, {order.tools, order.n_tools})
                 : std::string("the tools: ") + cria_status_message(status);
  return nullptr;
}

}  // namespace cria::hosted
