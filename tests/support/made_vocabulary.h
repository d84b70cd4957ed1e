// A model that is nothing but a vocabulary, made of the tokens that a test names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <cria_json.h>
#include "quant/text/tokenizer_format.h"
#include "runtime/decode/model.h"
#include "tests/support/test_session.h"

namespace cria::test {

class MadeVocabulary {
 public:
  // Begins with a token for each byte, but those that are left out, and an end token.
  explicit MadeVocabulary(format::TokenizerKind kind, std::string_view without = {}) {
    model_ = {};
    model_.tokenizer.header.kind = static_cast<uint32_t>(kind);
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      if (without.find(c) == std::string_view::npos) add({&c, 1}, format::kTokenByte);
    }
    end_token_ = add("<end>", format::kTokenSpecial);
  }
  MadeVocabulary(const MadeVocabulary&) = delete;
  MadeVocabulary& operator=(const MadeVocabulary&) = delete;

  uint32_t add(std::string_view text, uint8_t flags = 0) {
    text_ += text;
    ends_.push_back(static_cast<uint32_t>(text_.size()));
    flags_.push_back(flags);
    return static_cast<uint32_t>(ends_.size() - 1);
  }
  [[nodiscard]] uint32_t end_token() const { return end_token_; }
  void end_also_with(uint32_t token) { other_end_ = token; }

  // Valid until something is added. The vocabulary has a few ids more than there are tokens.
  const cria_model* model() {
    Tokenizer& t = model_.tokenizer;
    t.header.n_tokens = static_cast<uint32_t>(ends_.size());
    t.token_ends = ends_.data();
    t.token_flags = flags_.data();
    t.text = text_.data();
    model_.has_tokenizer = true;
    scalars_.vocab_size = t.header.n_tokens + 5;
    scalars_.n_end_tokens = 1;
    scalars_.end_tokens[0] = end_token_;
    if (other_end_ != 0) scalars_.end_tokens[scalars_.n_end_tokens++] = other_end_;
    model_.config.model = &scalars_;
    return &model_;
  }

 private:
  format::ModelScalars scalars_ = {};
  cria_model model_;
  std::string text_;
  std::vector<uint32_t> ends_;
  std::vector<uint8_t> flags_;
  uint32_t end_token_ = 0;
  uint32_t other_end_ = 0;
};

// A vocabulary and a schema made for it, each in memory of exactly what it asks for.
class JsonOfModel {
 public:
  JsonOfModel(const cria_model* model, const char* schema, size_t n_schema)
      : vocabulary_memory_(vocabulary_bytes(model)) {
    need(cria_json_make_vocabulary(vocabulary_memory_.data(), vocabulary_memory_.size(), model,
                                   &vocabulary_));
    make(schema, n_schema);
  }
  JsonOfModel(const cria_model* model, const std::string& schema)
      : JsonOfModel(model, schema.data(), schema.size()) {}

  [[nodiscard]] cria_json* get() { return json_; }
  [[nodiscard]] const cria_json_vocabulary* vocabulary() { return vocabulary_; }
  [[nodiscard]] cria_status status() const { return status_; }
  [[nodiscard]] const cria_json_problem& problem() const { return problem_; }
  [[nodiscard]] size_t json_bytes() const { return json_memory_ ? json_memory_->size() : 0; }
  [[nodiscard]] size_t vocabulary_size() const { return vocabulary_memory_.size(); }

 private:
  static size_t vocabulary_bytes(const cria_model* model) {
    size_t n_bytes = 0;
    need(cria_json_vocabulary_required(model, &n_bytes));
    return n_bytes;
  }
  void make(const char* schema, size_t n_schema) {
    size_t n_bytes = 0;
    status_ = cria_json_required(vocabulary_, schema, n_schema, &n_bytes, &problem_);
    if (status_ != CRIA_OK) return;
    json_memory_.emplace(n_bytes);
    status_ = cria_json_make(json_memory_->data(), n_bytes, vocabulary_, schema, n_schema, &json_,
                             &problem_);
  }

  AlignedMemory vocabulary_memory_;
  std::optional<AlignedMemory> json_memory_;
  cria_json_vocabulary* vocabulary_ = nullptr;
  cria_json* json_ = nullptr;
  cria_json_problem problem_ = {};
  cria_status status_ = CRIA_OK;
};

}  // namespace cria::test
