#include "platforms/hosted/engine/json_blocks.h"

#include <algorithm>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/session/json_problem.h"

namespace cria::hosted {
namespace {

// cria_json.h takes null for no schema.
const char* data_of(const std::string& schema) { return schema.empty() ? nullptr : schema.data(); }

}  // namespace

JsonBlocks::JsonBlocks(const ModelSession& model, size_t n_sessions, size_t max_schema_bytes)
    : max_schema_bytes_(std::max<size_t>(max_schema_bytes, 1)) {
  size_t n_bytes = 0;
  const cria_status status = cria_json_vocabulary_required(model.model(), &n_bytes);
  if (status == CRIA_NO_TOKENIZER || status == CRIA_UNSUPPORTED) return;
  model.check(status);
  vocabulary_memory_.emplace(n_bytes);
  model.check(
      cria_json_make_vocabulary(vocabulary_memory_->data(), n_bytes, model.model(), &vocabulary_));
  for (size_t i = 0; i <= n_sessions; ++i) {
    blocks_.push_back(std::make_unique<ArenaMemory>(max_schema_bytes_));
    blocks_.back()->make_resident();
  }
}

uint64_t JsonBlocks::n_bytes() const {
  if (vocabulary_ == nullptr) return 0;
  return vocabulary_memory_->size_bytes() + uint64_t{blocks_.size()} * max_schema_bytes_;
}

cria_status JsonBlocks::compile(size_t session, const std::string& schema, cria_json** json) {
  if (vocabulary_ == nullptr) return CRIA_UNSUPPORTED;
  return cria_json_make(blocks_[session]->data(), max_schema_bytes_, vocabulary_, data_of(schema),
                        schema.size(), json, nullptr);
}

std::string JsonBlocks::problem_with(const std::string& schema) {
  if (vocabulary_ == nullptr) return kNoJsonTokens;
  const std::lock_guard lock(trying_);
  return problem_of(schema);
}

std::string JsonBlocks::problem_of(const std::string& schema) {
  size_t n_needed = 0;
  cria_json_problem problem = {};
  cria_json* json = nullptr;
  cria_status status =
      cria_json_required(vocabulary_, data_of(schema), schema.size(), &n_needed, &problem);
  if (status == CRIA_OK && n_needed > max_schema_bytes_) {
    return text_of("the schema takes %zu bytes of memory, more than the %zu set aside for one",
                   n_needed, max_schema_bytes_);
  }
  if (status == CRIA_OK) {
    status = cria_json_make(blocks_.back()->data(), max_schema_bytes_, vocabulary_, data_of(schema),
                            schema.size(), &json, &problem);
  }
  if (status == CRIA_OK) return "";
  return problem.reason != nullptr ? text_of_problem(problem)
                                   : std::string("the schema: ") + cria_status_message(status);
}

}  // namespace cria::hosted
