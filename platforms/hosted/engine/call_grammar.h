// Calls of tools that cannot be malformed: compiled once a request, on the thread that reads it,
// and shared by all that answers it.
#pragma once

#include <cstddef>
#include <string>

#include "platforms/hosted/engine/answer_guide.h"
#include "platforms/hosted/session/aligned_bytes.h"
#include "platforms/hosted/session/answer_parts.h"

namespace cria::hosted {

// For calls that are read so, of any tool or the one with this name; both outlive it. Choice and
// what else there is are the caller's.
cria_call_order order_of(const CallReading& reading, const std::string& name);

class CallGrammar final : public AnswerGuide {
 public:
  // opened is what the prompt has opened of the answer.
  CallGrammar(size_t n_bytes, const cria_json_vocabulary* vocabulary, const cria_call_order& order,
              std::string opened, cria_call_problem* problem);

  [[nodiscard]] bool is_made() const { return grammar_ != nullptr; }  // or the status says why not
  [[nodiscard]] cria_status status() const { return status_; }

  cria_status begin(State* state) override;
  cria_status mask(const State& state, std::span<float> logits, cria_json_stop_fn wants_stop,
                   void* context) override;
  cria_status accept(State* state, uint32_t token) override;
  Progress progress(const State& state) override;
  cria_status forced(const State& state, cria_workspace* workspace, std::span<uint32_t> tokens,
                     size_t* n_tokens) override;

 private:
  const std::string opened_;
  AlignedBytes memory_;
  cria_call_grammar* grammar_ = nullptr;
  cria_status status_;
};

}  // namespace cria::hosted
