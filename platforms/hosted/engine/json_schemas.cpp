#include "platforms/hosted/engine/json_schemas.h"

#include <algorithm>
#include <new>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/session/json_problem.h"

namespace cria::hosted {
namespace {

constexpr std::align_val_t kAlignment{64};

// cria_json.h takes null for no schema.
const char* data_of(const std::string& schema) { return schema.empty() ? nullptr : schema.data(); }

}  // namespace

JsonSchema::JsonSchema(size_t n_bytes, const cria_json_vocabulary* vocabulary,
                       const std::string& schema, cria_json_problem* problem)
    : memory_(new (kAlignment) std::byte[n_bytes],
              [](std::byte* memory) { ::operator delete[](memory, kAlignment); }),
      status_(cria_json_make(memory_.get(), n_bytes, vocabulary, data_of(schema), schema.size(),
                             &json_, problem)) {}

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
  if (status == CRIA_OK && n_needed > max_schema_bytes_) {
    *problem = text_of("the schema takes %zu bytes of memory, more than the %zu that one may take",
                       n_needed, max_schema_bytes_);
    return nullptr;
  }
  if (status == CRIA_OK) {
    auto made = std::make_shared<JsonSchema>(n_needed, vocabulary_, schema, &found);
    if (made->json() != nullptr) return made;
    status = made->status();
  }
  *problem = found.reason != nullptr ? text_of_problem(found, schema)
                                     : std::string("the schema: ") + cria_status_message(status);
  return nullptr;
}

}  // namespace cria::hosted
