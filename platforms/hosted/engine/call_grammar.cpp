#include "platforms/hosted/engine/call_grammar.h"

#include <utility>

namespace cria::hosted {

cria_call_order order_of(const CallReading& reading, const std::string& name) {
  cria_call_order order = {};
  order.format = reading.writing->format.data();
  order.n_format = reading.writing->format.size();
  order.tools = reading.tools.data();
  order.n_tools = reading.tools.size();
  order.name = name.data();
  order.n_name = name.size();
  return order;
}

CallGrammar::CallGrammar(size_t n_bytes, const cria_json_vocabulary* vocabulary,
                         const cria_call_order& order, std::string opened,
                         cria_call_problem* problem)
    : opened_(std::move(opened)),
      memory_(aligned_bytes(n_bytes)),
      status_(
          cria_call_grammar_make(memory_.get(), n_bytes, vocabulary, &order, &grammar_, problem)) {
  State state;
  if (status_ == CRIA_OK) status_ = begin(&state);
  if (status_ != CRIA_OK) grammar_ = nullptr;
}

cria_status CallGrammar::begin(State* state) {
  return cria_call_grammar_begin(grammar_, opened_.data(), opened_.size(), &state->calls);
}

cria_status CallGrammar::mask(const State& state, std::span<float> logits,
                              cria_json_stop_fn wants_stop, void* context) {
  cria_call_grammar_watch(grammar_, wants_stop, context);
  const cria_status status =
      cria_call_grammar_mask(grammar_, &state.calls, logits.data(), logits.size());
  cria_call_grammar_watch(grammar_, nullptr, nullptr);
  return status;
}

cria_status CallGrammar::accept(State* state, uint32_t token) {
  return cria_call_grammar_accept(grammar_, &state->calls, token);
}

AnswerGuide::Progress CallGrammar::progress(const State& state) {
  switch (cria_call_grammar_progress_of(grammar_, &state.calls)) {
    case CRIA_CALL_OPEN:
      return Progress::kOpen;
    case CRIA_CALL_CLOSED:
      return Progress::kClosed;
    default:
      return Progress::kWhole;
  }
}

cria_status CallGrammar::forced(const State& state, cria_workspace* workspace,
                                std::span<uint32_t> tokens, size_t* n_tokens) {
  return cria_call_grammar_forced_tokens(grammar_, &state.calls, workspace, tokens.data(),
                                         tokens.size(), n_tokens);
}

}  // namespace cria::hosted
