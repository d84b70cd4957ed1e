// A backend multiplies activations by the model's matrices. Everything else of the decoder is the
// same whatever the backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <cria.h>
#include "quant/memory_plan.h"
#include "runtime/base/status.h"
#include "runtime/decode/model.h"

namespace cria {

// One product of a group that shares its input: y [n_rows][matrix->shape.rows], overwritten.
struct LinearCall {
  const Matrix* matrix;
  float* y;
};

// Memory a backend wants besides what the plan has anyway, in bytes.
struct BackendNeeds {
  bool keeps_tile16;     // it reads matrices in the file's layout
  uint64_t model_bytes;  // taken from the arena's model part by load, exactly
  uint64_t step_bytes;   // StepScratch::backend
  uint64_t load_bytes;   // at the start of the step memory, while load runs
};

struct Backend {
  const char* name;
  // Fails with kUnsupported when this CPU or build cannot run the config.
  Status (*needs)(const format::ModelConfig& config, uint32_t n_threads, uint32_t prefill_chunk,
                  BackendNeeds* needs);
  // Called once by cria_open, after the tensors that stay in tile16 are in place and before the
  // arena is sealed. Packs what it wants into arena memory it takes.
  Status (*load)(cria_session* session);
  // x [n_rows][cols] f32, n_rows <= prefill_chunk; every call's matrix has the same cols. Adds no
  // bias. x may not overlap any y.
  Status (*linear)(cria_session* session, const float* x, size_t n_rows,
                   std::span<const LinearCall> calls);
};

extern const Backend kExactBackend;
#ifdef CRIA_WITH_XNNPACK
extern const Backend kXnnpackBackend;
#endif

}  // namespace cria
