// What the text of an answer is held to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cria.h>
#include <cria_call_grammar.h>
#include <cria_json.h>

namespace cria::hosted {

// For one thread at a time, and any number of answers.
class AnswerGuide {
 public:
  // How far an answer is: plain bytes.
  union State {
    cria_json_state document;
    cria_call_state calls;
  };
  enum class Progress {
    kOpen,    // something is missing
    kWhole,   // it may end
    kClosed,  // nothing can follow
  };

  static constexpr size_t kMostForced = 16;

  AnswerGuide() = default;
  virtual ~AnswerGuide() = default;
  AnswerGuide(const AnswerGuide&) = delete;
  AnswerGuide& operator=(const AnswerGuide&) = delete;

  virtual cria_status begin(State* state) = 0;
  // wants_stop is asked meanwhile, as cria_json_watch says.
  virtual cria_status mask(const State& state, std::span<float> logits,
                           cria_json_stop_fn wants_stop, void* context) = 0;
  virtual cria_status accept(State* state, uint32_t token) = 0;
  virtual Progress progress(const State& state) = 0;
  // Tokens that nothing else than they can follow; none where nobody looks for them. After them
  // others may be forced: something is drawn only where there are none, so that the tokens of an
  // answer do not depend on how many of them go through the model together. How many are asked for
  // decides how the text is cut into tokens, so all ask for kMostForced.
  virtual cria_status forced(const State& /*state*/, cria_workspace* /*workspace*/,
                             std::span<uint32_t> /*tokens*/, size_t* n_tokens) {
    *n_tokens = 0;
    return CRIA_OK;
  }
};

}  // namespace cria::hosted
