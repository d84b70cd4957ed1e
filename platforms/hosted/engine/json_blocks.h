// Memory for JSON documents, taken once: the vocabulary, a block for the schema of each session and
// one for trying schemas out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <cria_json.h>
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

class JsonBlocks {
 public:
  // A model whose tokenizer cannot promise JSON takes no memory.
  JsonBlocks(const ModelSession& model, size_t n_sessions, size_t max_schema_bytes);

  // Of memory.
  [[nodiscard]] uint64_t n_bytes() const;

  // Compiles a schema (empty: any JSON value) in the block of a session, in place of what was
  // there. Errors: those of cria_json_make, and CRIA_UNSUPPORTED for a model that cannot.
  cria_status compile(size_t session, const std::string& schema, cria_json** json);

  // One line; empty: compile would do. From any thread.
  std::string problem_with(const std::string& schema);

 private:
  std::string problem_of(const std::string& schema);

  size_t max_schema_bytes_;
  std::optional<ArenaMemory> vocabulary_memory_;
  cria_json_vocabulary* vocabulary_ = nullptr;
  std::vector<std::unique_ptr<ArenaMemory>> blocks_;  // one a session, then the one for trying
  std::mutex trying_;
};

}  // namespace cria::hosted
