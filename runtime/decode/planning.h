// From the caller's cria_config to a plan: defaults, limits, the backend chosen.
#pragma once

#include "quant/model/memory_plan.h"
#include "runtime/backends/backend.h"
#include "runtime/base/status.h"

namespace cria {

inline constexpr uint32_t kDefaultPrefillChunk = 64;
inline constexpr uint32_t kMinTextBytes = 1024;
inline constexpr uint32_t kTextBytesPerPosition = 4;

// What is planned for.
struct PlanSubject {
  const Config& config;
  uint64_t tokenizer_bytes;
  uint64_t chat_template_bytes;
  const Backend* backend;  // null: config's wish; else that of a model that was loaded
};

struct Plan {
  PlanInput input;
  MemoryPlan memory;
  const Backend* backend;
};

// Fails with kInvalidArgument for a context over the model's, too many threads or too large a
// chunk; kUnsupported when no backend fits; never because of the amount of memory, unless it does
// not fit size_t.
[[nodiscard]] Status make_plan(const PlanSubject& subject, const cria_config& config, Plan* plan);

}  // namespace cria
