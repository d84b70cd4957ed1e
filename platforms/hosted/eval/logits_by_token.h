// The logits after every token of a sequence, without room for all of them at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

class LogitsByToken {
 public:
  // Gets the token's index in the sequence and logits [vocab_size], valid during the call.
  // Returns whether to go on.
  using Use = std::function<bool(size_t index, std::span<const float> logits)>;

  // Takes room for one prefill chunk's logits.
  explicit LogitsByToken(const ModelSession& model);

  // Appends tokens to the context, a prefill chunk at a time. Throws ProgramError.
  void run(std::span<const uint32_t> tokens, const Use& use);

 private:
  const ModelSession& model_;
  size_t chunk_;
  std::vector<float> logits_;  // [chunk][vocab_size]
};

}  // namespace cria::hosted
