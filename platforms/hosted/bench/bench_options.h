// What cria bench is asked to measure.
#pragma once

#include <cstdint>
#include <vector>

#include "platforms/hosted/session/session_options.h"

namespace cria::hosted {

struct BenchOptions {
  CommonOptions common;
  std::vector<uint32_t> prompts;   // empty: the default lengths, as far as they fit the model
  std::vector<uint32_t> depths;    // tokens in the context before what is measured; empty: 0
  std::vector<uint32_t> threads;   // empty: default_threads()
  std::vector<uint32_t> sessions;  // counts of sessions that decode together; empty: none
  uint32_t n_decode = 64;
  uint32_t repetitions = 5;
  bool json = false;
};

}  // namespace cria::hosted
