#include "platforms/hosted/cli/json_guide.h"

#include "platforms/hosted/base/json_source.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/cli/input_text.h"
#include "platforms/hosted/session/json_problem.h"
#include "platforms/hosted/session/status_error.h"

namespace cria::hosted {
namespace {

// "schema.json: byte 17: \"patternProperties\" is not supported"
[[noreturn]] void throw_problem(const cria_json_problem& problem, const std::string& name,
                                std::string_view schema) {
  throw ProgramError(ExitCode::kInvalidInput, name + ": " + text_of_problem(problem, schema));
}

}  // namespace

std::string read_schema(const std::string& path) {
  const std::string text(json_source(read_text_file(path)).text);
  if (text.empty()) {
    throw ProgramError(ExitCode::kInvalidInput,
                       schema_name(path) + ": is empty; give a JSON schema");
  }
  return text;
}

std::string schema_name(const std::string& path) { return path == "-" ? "standard input" : path; }

JsonGuide::JsonGuide(const ModelSession& model, const std::string* schema, const std::string& name)
    : model_(model) {
  size_t n_bytes = 0;
  model.need_tokenizer();
  const cria_status has_bytes = cria_json_vocabulary_required(model.model(), &n_bytes);
  if (has_bytes == CRIA_UNSUPPORTED) {
    throw ProgramError(ExitCode::kInvalidInput, model.path() + ": " + kNoJsonTokens);
  }
  model.check(has_bytes);
  vocabulary_memory_.emplace(n_bytes);
  cria_json_vocabulary* vocabulary = nullptr;
  model.check(
      cria_json_make_vocabulary(vocabulary_memory_->data(), n_bytes, model.model(), &vocabulary));
  const char* const text = schema != nullptr ? schema->data() : nullptr;
  const size_t n_text = schema != nullptr ? schema->size() : 0;
  cria_json_problem problem = {};
  const cria_status counted = cria_json_required(vocabulary, text, n_text, &n_bytes, &problem);
  if (problem.reason != nullptr) throw_problem(problem, name, {text, n_text});
  model.check(counted);
  json_memory_.emplace(n_bytes);
  const cria_status made =
      cria_json_make(json_memory_->data(), n_bytes, vocabulary, text, n_text, &json_, &problem);
  if (problem.reason != nullptr) throw_problem(problem, name, {text, n_text});
  model.check(made);
  model.check(cria_json_begin(json_, &state_));
}

void JsonGuide::mask() {
  model_.check(cria_json_mask(json_, &state_, cria_logits(model_.session()),
                              cria_vocab_size(model_.model())));
}

void JsonGuide::accept(uint32_t token) { model_.check(cria_json_accept(json_, &state_, token)); }

}  // namespace cria::hosted
