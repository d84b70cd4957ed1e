// What a model thought of the token that was drawn and of the likeliest ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "platforms/hosted/engine/engine.h"

namespace cria::hosted {

// The distribution that logits, [vocab_size], describe. They are not copied: later it is told of
// those that have not changed.
class TokenLogprobs {
 public:
  explicit TokenLogprobs(std::span<const float> logits);

  [[nodiscard]] float of(uint32_t token) const;
  // The n likeliest (all, if there are fewer), the likeliest first; of equals the lower id.
  [[nodiscard]] std::vector<TokenLogprob> top(uint32_t n) const;

 private:
  std::span<const float> logits_;
  double log_sum_;
};

}  // namespace cria::hosted
