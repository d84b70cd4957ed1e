// Forms of calls as a model file has them, and what a reader of answers tells.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cria_calls.h>
#include "quant/text/call_format.h"
#include "tests/support/test_session.h"

namespace cria::test {

// tests/data/call_forms.json: a list of forms, each with the chat templates that it is the form of,
// its kind, its flags, and its strings by their names in quant/text/call_format.h.
[[nodiscard]] const nlohmann::json& call_forms();
[[nodiscard]] std::vector<uint8_t> stored_call_form(const nlohmann::json& form);
// That of a template; throws where there is none.
[[nodiscard]] std::vector<uint8_t> call_form_of(const std::string& chat_template);

// What was told, with pieces that follow each other joined.
struct ToldEvent {
  cria_calls_kind kind;
  uint32_t call;
  std::string text;
  std::string id;
  bool operator==(const ToldEvent&) const = default;
};

// Whether an answer of CallTrial is that of a vector of the reference.
[[nodiscard]] bool is_same_answer(const nlohmann::json& got, const nlohmann::json& expected);

class CallTrial {
 public:
  CallTrial(std::vector<uint8_t> form, std::string tools, size_t hold_bytes);

  void begin(std::string_view opened);
  void read(std::string_view piece);
  void finish(cria_calls_ending ended);
  // All of it, in pieces of n_bytes; 0: of random sizes.
  void run(std::string_view opened, std::string_view answer, size_t n_bytes,
           cria_calls_ending ended, std::mt19937* random);

  [[nodiscard]] const std::vector<ToldEvent>& told() const { return told_; }
  [[nodiscard]] size_t n_events() const { return n_events_; }
  [[nodiscard]] cria_calls_ending ending() const { return ending_; }
  [[nodiscard]] size_t n_bytes() const { return memory_->size(); }
  // {"content", "reasoning", "calls", "complete"}; a text that is empty is null. Calls have "id"
  // where one was told.
  [[nodiscard]] nlohmann::json answer() const;

 private:
  static void tell(void* context, const cria_calls_event* event);

  std::vector<uint8_t> form_;
  std::string tools_;
  std::unique_ptr<AlignedMemory> memory_;
  cria_calls* calls_ = nullptr;
  std::vector<ToldEvent> told_;
  size_t n_events_ = 0;
  cria_calls_ending ending_ = CRIA_CALLS_STOPPED;
};

}  // namespace cria::test
