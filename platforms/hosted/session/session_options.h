// What people can choose about a model that is opened.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <cria.h>
#include "platforms/hosted/session/mapped_file.h"

namespace cria::hosted {

// Every command that opens a session.
struct CommonOptions {
  std::string model_path;
  uint32_t n_threads = 0;               // 0: default_threads()
  uint32_t context = 0;                 // 0: the model's planned context
  uint32_t prefill_chunk = 0;           // 0: the runtime's default
  uint32_t isa_mask = 0;                // 0: all the CPU has
  std::optional<uint32_t> n_snapshots;  // none: the runtime's default
  cria_backend backend = CRIA_BACKEND_AUTO;
  // None: int8, and floats with f32 weights, whose use is comparing.
  std::optional<cria_kv_format> kv_format;
  Mapping mapping = Mapping::kWhenPossible;
  bool verbose = false;
};

}  // namespace cria::hosted
