// Prefill and the loop that makes tokens, for run and chat. Nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cria.h>
#include "platforms/hosted/cli/cli_options.h"
#include "platforms/hosted/engine/answer_guide.h"
#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// Where tokens go as they are made.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  enum class Demand { kMore, kEnough };
  virtual Demand put(uint32_t token) = 0;
};

// What tokens are held to.
class TokenGuide {
 public:
  virtual ~TokenGuide() = default;
  // Leaves the tokens that can come next. Throws ProgramError.
  virtual void mask() = 0;
  // Takes one of them, which is no end token.
  virtual void accept(uint32_t token) = 0;
  // Nothing can follow.
  virtual bool is_closed() = 0;
  // As AnswerGuide has it: so many tokens.
  virtual size_t forced(std::span<uint32_t> /*tokens*/) { return 0; }
};

// kDocument: the guide is closed.
enum class Stop { kEndToken, kDocument, kLimit, kContextFull, kInterrupted, kOutputClosed };

// Warns that an answer ended before what it had to be ("call") was finished: why, and what to do.
void report_cut(const ModelSession& model, const char* what, Stop stop);

struct GenerationLimits {
  uint32_t max_tokens;
  bool ignore_end;
  TokenGuide* guide = nullptr;  // what the answer has to be; null: anything
};

struct Generation {
  Stop stop;
  uint32_t n_tokens;       // handed to the sink
  bool last_token_is_fed;  // whether the last of them is in the context; so are all before it
  double first_seconds;    // clock when the first token was handed out; 0: none
  double last_seconds;     // ... the last
};

struct PrefillResult {
  size_t n_fed;  // all, or none when Ctrl-C came
  double seconds;
};

// Appends tokens to the context, or leaves it as it is when interrupted. Throws ProgramError;
// kContextFull must have been excluded by the caller.
PrefillResult prefill(const ModelSession& model, std::span<const uint32_t> tokens);

// Draws tokens after a prefill until something stops it. The end token is neither handed out nor
// fed.
Generation generate(const ModelSession& model, const cria_sampling& sampling,
                    const GenerationLimits& limits, TokenSink* sink);

cria_sampling sampling_of(const SamplingOptions& options);
// The seed asked for, else one from the system's random source.
uint64_t seed_of(const SamplingOptions& options);

}  // namespace cria::hosted
