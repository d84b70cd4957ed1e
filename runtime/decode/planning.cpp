#include "runtime/decode/planning.h"

#include "quant/format/all_zero.h"
#include "runtime/base/enum_bits.h"
#include "runtime/base/features.h"
#include "runtime/kernels/kernels.h"

namespace cria {
namespace {

uint32_t or_default(uint32_t value, uint32_t fallback) { return value != 0 ? value : fallback; }

Status find_kv_format(const cria_config& config, KvFormat* kv_format) {
  switch (enum_bits(config.kv_format)) {
    case CRIA_KV_INT8:
      *kv_format = KvFormat::kInt8;
      return Status::kOk;
    case CRIA_KV_F32:
      *kv_format = KvFormat::kF32;
      return kHasKvF32 ? Status::kOk : Status::kUnsupported;
    case CRIA_KV_K8V4:
      *kv_format = KvFormat::kK8V4;
      return Status::kOk;
  }
  return Status::kInvalidArgument;
}

Status fill_input(const PlanSubject& subject, const cria_config& config, PlanInput* in) {
  const format::ModelScalars& model = *subject.config.model;
  if (!all_zero(config.reserved)) return Status::kInvalidArgument;
  in->mapped = config.source_is_mapped != 0;
  in->text_only = config.text_only != 0;
  in->tokenizer_bytes = subject.tokenizer_bytes;
  in->chat_template_bytes = subject.chat_template_bytes;

  in->context = or_default(config.context, model.planned_context);
  CRIA_TRY(find_kv_format(config, &in->kv_format));
  in->n_snapshots = config.n_snapshots == CRIA_NO_SNAPSHOTS
                        ? 0
                        : or_default(config.n_snapshots, kDefaultSnapshots);

  in->n_threads = or_default(config.n_threads, 1);
  in->prefill_chunk = or_default(config.prefill_chunk, kDefaultPrefillChunk);
  in->max_entries = or_default(config.max_entries, 1);
  const uint32_t text = in->context < UINT32_MAX / kTextBytesPerPosition
                            ? in->context * kTextBytesPerPosition
                            : UINT32_MAX;
  in->max_text_bytes =
      or_default(config.max_text_bytes, text > kMinTextBytes ? text : kMinTextBytes);
  const bool is_valid = in->context <= model.max_context && in->n_threads <= CRIA_MAX_THREADS &&
                        in->prefill_chunk <= CRIA_MAX_PREFILL_CHUNK &&
                        in->n_snapshots <= CRIA_MAX_SNAPSHOTS;
  if (!is_valid) return Status::kInvalidArgument;
  if (in->prefill_chunk > in->context) in->prefill_chunk = in->context;
  if (in->max_entries > in->prefill_chunk) in->max_entries = in->prefill_chunk;
  return Status::kOk;
}

Status try_backend(const Backend& backend, const Config& model, Plan* plan) {
  BackendNeeds needs = {};
  PlanInput& in = plan->input;
  CRIA_TRY(backend.needs(model, in.n_threads, in.prefill_chunk, &needs));
  plan->backend = &backend;
  in.backend_keeps_tile16 = needs.keeps_tile16;
  in.backend_model_bytes = needs.model_bytes;
  in.backend_workspace_bytes = needs.workspace_bytes;
  in.backend_step_bytes = needs.step_bytes;
  in.backend_load_bytes = needs.load_bytes;
  return Status::kOk;
}

// Whether exact has better kernels than the scalar ones: those were faster than XNNPACK's for int4
// on every level of x86 (docs/performance_x86.md), and give the same bits everywhere.
bool exact_has_vectors(uint32_t isa_mask) {
  constexpr uint32_t kScalarBit = 1u << static_cast<uint32_t>(Isa::kScalar);
  return ((isa_mask != 0 ? isa_mask : baseline_isas()) & built_isas() & ~kScalarBit) != 0;
}

Status choose_backend(const PlanSubject& subject, const cria_config& config, Plan* plan) {
  const Config& model = subject.config;
  if (subject.backend != nullptr) return try_backend(*subject.backend, model, plan);
  switch (enum_bits(config.backend)) {
    case CRIA_BACKEND_EXACT:
      return try_backend(kExactBackend, model, plan);
    case CRIA_BACKEND_XNNPACK:
      if constexpr (kHasXnnpack) return try_backend(kXnnpackBackend, model, plan);
      return Status::kUnsupported;
    case CRIA_BACKEND_AUTO:
      if constexpr (kHasXnnpack) {
        if (!exact_has_vectors(config.isa_mask) &&
            try_backend(kXnnpackBackend, model, plan) == Status::kOk) {
          return Status::kOk;
        }
      }
      return try_backend(kExactBackend, model, plan);
  }
  return Status::kInvalidArgument;
}

}  // namespace

Status make_plan(const PlanSubject& subject, const cria_config& config, Plan* plan) {
  *plan = {};
  CRIA_TRY(fill_input(subject, config, &plan->input));
  const bool needs_weights = !plan->input.text_only;
  if (!kHasCompression && needs_weights && !is_stored(subject.config)) return Status::kUnsupported;
  CRIA_TRY(choose_backend(subject, config, plan));
  if (!plan_memory(subject.config, plan->input, &plan->memory)) return Status::kUnsupported;
  return plan->memory.total <= SIZE_MAX ? Status::kOk : Status::kUnsupported;
}

}  // namespace cria
