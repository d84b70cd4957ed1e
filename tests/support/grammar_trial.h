// Answers drawn under the masks of a grammar of calls.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <cria_call_grammar.h>
#include "tests/support/made_vocabulary.h"
#include "tests/support/test_session.h"

namespace cria::test {

// A vocabulary for a form: bytes, pieces of JSON and text, and the form's markers, as special
// tokens or as plain ones.
enum class Markers { kSpecial, kPlain };
[[nodiscard]] std::unique_ptr<MadeVocabulary> vocabulary_for(const nlohmann::json& form,
                                                             Markers markers);

// A grammar in memory of exactly what it asks for, and one answer under it.
class GrammarTrial {
 public:
  GrammarTrial(const cria_model* model, std::vector<uint8_t> form, std::string tools,
               const cria_call_order& requests);

  [[nodiscard]] cria_status status() const { return status_; }
  [[nodiscard]] const cria_call_problem& problem() const { return problem_; }
  [[nodiscard]] size_t n_bytes() const { return memory_ ? memory_->size() : 0; }
  [[nodiscard]] cria_call_grammar* get() { return grammar_; }
  [[nodiscard]] cria_call_state& state() { return state_; }
  [[nodiscard]] const cria_call_state& state() const { return state_; }
  [[nodiscard]] bool is_end(uint32_t token) const { return cria_is_end_token(model_, token) != 0; }
  [[nodiscard]] const std::string& text() const { return text_; }

  [[nodiscard]] cria_status begin(std::string_view opened);
  // Tokens that the mask leaves.
  [[nodiscard]] std::vector<uint32_t> allowed();
  [[nodiscard]] bool accept(uint32_t token);
  // The whole text, byte by byte.
  [[nodiscard]] bool accept_bytes(std::string_view text);
  [[nodiscard]] cria_call_progress progress() {
    return cria_call_grammar_progress_of(grammar_, &state_);
  }
  [[nodiscard]] std::string forced();
  // The bytes of a token, special ones too.
  [[nodiscard]] std::string bytes_of(uint32_t token) const;

  // Draws tokens until the answer ends; false when that takes too long. wanted are texts that end
  // what is open, those that end more before those that end less.
  [[nodiscard]] bool draw(std::mt19937* random, const std::vector<std::string>& wanted);

 private:
  const cria_model* model_;
  AlignedMemory vocabulary_memory_;
  cria_json_vocabulary* vocabulary_ = nullptr;
  std::vector<uint8_t> form_;
  std::string tools_;
  std::optional<AlignedMemory> memory_;
  cria_call_grammar* grammar_ = nullptr;
  cria_call_problem problem_ = {};
  cria_status status_ = CRIA_OK;
  cria_call_state state_ = {};
  std::string text_;
};

// What ends strings, objects and calls of a form.
[[nodiscard]] std::vector<std::string> endings_of(const nlohmann::json& form);

}  // namespace cria::test
