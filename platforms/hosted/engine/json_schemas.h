// Schemas of requests, and calls of their tools: compiled once a request, on the thread that reads
// it, and shared by all that answers it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "platforms/hosted/engine/answer_guide.h"
#include "platforms/hosted/engine/call_grammar.h"
#include "platforms/hosted/session/aligned_bytes.h"
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// A schema, with its memory.
class JsonSchema final : public AnswerGuide {
 public:
  JsonSchema(size_t n_bytes, const cria_json_vocabulary* vocabulary, const std::string& schema,
             cria_json_problem* problem);

  [[nodiscard]] cria_json* json() const { return json_; }  // null: the status says why
  [[nodiscard]] cria_status status() const { return status_; }

  cria_status begin(State* state) override;
  cria_status mask(const State& state, std::span<float> logits, cria_json_stop_fn wants_stop,
                   void* context) override;
  cria_status accept(State* state, uint32_t token) override;
  Progress progress(const State& state) override;

 private:
  AlignedBytes memory_;
  cria_json* json_ = nullptr;
  cria_status status_;
};

class JsonSchemas {
 public:
  // A model whose tokenizer cannot promise JSON takes no memory.
  JsonSchemas(const ModelSession& model, size_t max_schema_bytes);

  // Of the vocabulary.
  [[nodiscard]] uint64_t n_bytes() const;

  // A schema's text (empty: any JSON value), compiled. Null: problem says why, in one line. From
  // any thread. Throws std::bad_alloc.
  std::shared_ptr<JsonSchema> compile(const std::string& schema, std::string* problem) const;
  // The same of calls; opened as CallGrammar has it.
  std::shared_ptr<CallGrammar> compile(const cria_call_order& order, std::string opened,
                                       std::string* problem) const;

 private:
  [[nodiscard]] bool fits(size_t n_bytes, const char* what, std::string* problem) const;

  size_t max_schema_bytes_;
  std::optional<ArenaMemory> memory_;
  cria_json_vocabulary* vocabulary_ = nullptr;
};

}  // namespace cria::hosted
