// From the caller's cria_config to a plan: defaults, limits, the backend chosen.
#pragma once

#include "quant/memory_plan.h"
#include "runtime/backends/backend.h"
#include "runtime/base/status.h"

namespace cria {

inline constexpr uint32_t kMaxThreads = 256;
inline constexpr uint32_t kMaxPrefillChunk = 4096;
inline constexpr uint32_t kDefaultPrefillChunk = 64;
inline constexpr uint32_t kMinTextBytes = 1024;
inline constexpr uint32_t kTextBytesPerPosition = 4;

struct SessionPlan {
  PlanInput input;
  BackendNeeds needs;
  MemoryPlan memory;
  const Backend* backend;
};

// Fails with kInvalidArgument for a context over the model's, too many threads or too large a
// chunk; kUnsupported when no backend fits; never because of the amount of memory, unless it does
// not fit size_t.
[[nodiscard]] Status plan_session(const format::ModelConfig& model, uint64_t tokenizer_bytes,
                                  uint64_t chat_template_bytes, const cria_config& config,
                                  SessionPlan* plan);

}  // namespace cria
