#include "runtime/loading/planning.h"

#include "runtime/base/features.h"
#include "runtime/kernels/kernels.h"

namespace cria {
namespace {

uint32_t or_default(uint32_t value, uint32_t fallback) { return value != 0 ? value : fallback; }

Status fill_input(const format::ModelConfig& model, const cria_config& config, PlanInput* in) {
  in->context = or_default(config.context, model.planned_context);
  in->n_threads = or_default(config.n_threads, 1);
  in->prefill_chunk = or_default(config.prefill_chunk, kDefaultPrefillChunk);
  const uint32_t text = in->context < UINT32_MAX / kTextBytesPerPosition
                            ? in->context * kTextBytesPerPosition
                            : UINT32_MAX;
  in->max_text_bytes =
      or_default(config.max_text_bytes, text > kMinTextBytes ? text : kMinTextBytes);
  in->mapped = config.source_is_mapped != 0;
  uint8_t reserved = 0;
  for (const uint8_t byte : config.reserved) reserved = static_cast<uint8_t>(reserved | byte);
  const bool is_valid = in->context <= model.max_context && in->n_threads <= kMaxThreads &&
                        in->prefill_chunk <= kMaxPrefillChunk && reserved == 0;
  if (!is_valid) return Status::kInvalidArgument;
  if (in->prefill_chunk > in->context) in->prefill_chunk = in->context;
  switch (config.kv_format) {
    case CRIA_KV_INT8:
      in->kv_format = KvFormat::kInt8;
      return Status::kOk;
    case CRIA_KV_F32:
      if (!kHasKvF32) return Status::kUnsupported;
      in->kv_format = KvFormat::kF32;
      return Status::kOk;
  }
  return Status::kInvalidArgument;
}

Status try_backend(const Backend& backend, const format::ModelConfig& model, SessionPlan* plan) {
  plan->backend = &backend;
  return backend.needs(model, plan->input.n_threads, plan->input.prefill_chunk, &plan->needs);
}

// Whether exact has better kernels than the scalar ones: those were faster than XNNPACK's for int4
// on every level of x86 (docs/performance.md), and give the same bits everywhere.
[[maybe_unused]] bool exact_has_vectors(uint32_t isa_mask) {
  constexpr uint32_t kScalarBit = 1u << static_cast<uint32_t>(Isa::kScalar);
  return ((isa_mask != 0 ? isa_mask : baseline_isas()) & built_isas() & ~kScalarBit) != 0;
}

Status choose_backend(const format::ModelConfig& model, uint32_t wanted,
                      [[maybe_unused]] uint32_t isa_mask, SessionPlan* plan) {
  switch (wanted) {
    case CRIA_BACKEND_EXACT:
      return try_backend(kExactBackend, model, plan);
    case CRIA_BACKEND_XNNPACK:
#ifdef CRIA_WITH_XNNPACK
      return try_backend(kXnnpackBackend, model, plan);
#else
      return Status::kUnsupported;
#endif
    case CRIA_BACKEND_AUTO:
#ifdef CRIA_WITH_XNNPACK
      if (!exact_has_vectors(isa_mask) && try_backend(kXnnpackBackend, model, plan) == Status::kOk)
        return Status::kOk;
#endif
      return try_backend(kExactBackend, model, plan);
  }
  return Status::kInvalidArgument;
}

}  // namespace

Status plan_session(const format::ModelConfig& model, uint64_t tokenizer_bytes,
                    uint64_t chat_template_bytes, const cria_config& config, SessionPlan* plan) {
  *plan = {};
  const auto compression = static_cast<format::Compression>(model.compression);
  if (!kHasCompression && compression == format::Compression::kZstd) return Status::kUnsupported;
  CRIA_TRY(fill_input(model, config, &plan->input));
  plan->input.tokenizer_bytes = tokenizer_bytes;
  plan->input.chat_template_bytes = chat_template_bytes;
  CRIA_TRY(choose_backend(model, config.backend, config.isa_mask, plan));
  plan->input.backend_keeps_tile16 = plan->needs.keeps_tile16;
  plan->input.backend_model_bytes = plan->needs.model_bytes;
  plan->input.backend_step_bytes = plan->needs.step_bytes;
  plan->input.backend_load_bytes = plan->needs.load_bytes;
  if (!plan_memory(model, plan->input, &plan->memory)) return Status::kUnsupported;
  return plan->memory.total <= SIZE_MAX ? Status::kOk : Status::kUnsupported;
}

}  // namespace cria
