// How tests draw tokens, whatever else cria_sampling has.
#pragma once

#include <cstdint>

#include <cria.h>

namespace cria::test {

[[nodiscard]] constexpr cria_sampling sampling_of(float temperature, float top_p, float min_p,
                                                  float repeat_penalty, uint32_t top_k) {
  cria_sampling sampling = {};
  sampling.temperature = temperature;
  sampling.top_p = top_p;
  sampling.min_p = min_p;
  sampling.repeat_penalty = repeat_penalty;
  sampling.top_k = top_k;
  return sampling;
}

}  // namespace cria::test
