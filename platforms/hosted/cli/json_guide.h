// A document that an answer has to be: cria_json for a model that is open.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <cria_json.h>
#include "platforms/hosted/cli/generation.h"
#include "platforms/hosted/session/arena_memory.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// The schema's text; path "-" is standard input. Throws ProgramError.
std::string read_schema(const std::string& path);
// What messages call it.
std::string schema_name(const std::string& path);

class JsonGuide final : public TokenGuide {
 public:
  // Null: any JSON value. name is what messages call the schema. Throws ProgramError kInvalidInput
  // with the place of what is refused.
  JsonGuide(const ModelSession& model, const std::string* schema, const std::string& name);

  void mask() override;
  void accept(uint32_t token) override;
  bool is_closed() override { return progress() == CRIA_JSON_CLOSED; }
  [[nodiscard]] cria_json_progress progress() { return cria_json_progress_of(json_, &state_); }

 private:
  const ModelSession& model_;
  std::optional<ArenaMemory> vocabulary_memory_;
  std::optional<ArenaMemory> json_memory_;
  cria_json* json_ = nullptr;
  cria_json_state state_ = {};
};

}  // namespace cria::hosted
