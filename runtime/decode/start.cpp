// cria_start and cria_make_workspace: sessions and workspaces of a model that is loaded.
#include "quant/format/align.h"
#include "runtime/base/arena.h"
#include "runtime/decode/planning.h"
#include "runtime/decode/session.h"
#include "runtime/decode/workspace.h"

namespace cria {
namespace {

Status plan_of(const cria_model& model, const cria_config& config, Plan* plan) {
  CRIA_TRY(make_plan(
      {model.config, model.index.tokenizer.bytes, model.index.chat_template.bytes, model.backend},
      config, plan));
  // What a model was loaded without cannot be had of it.
  return plan->input.text_only || model.has_weights ? Status::kOk : Status::kNoWeights;
}

Status start(const cria_model& model, const cria_config& config, std::span<uint8_t> memory,
             cria_session** session) {
  Plan plan;
  CRIA_TRY(plan_of(model, config, &plan));
  if (plan.input.text_only) return Status::kNoWeights;
  const MemoryPlan::Session& sizes = plan.memory.session;
  if (memory.size() < sizes.total) return Status::kMemoryTooSmall;
  Arena arena(memory.data(), static_cast<size_t>(sizes.total));
  const size_t n_kinds = model.config.kinds.size();
  const format::ModelScalars& m = model.scalars();
  cria_session* s = nullptr;
  uint8_t* state = nullptr;
  CRIA_TRY(take(&arena, kSessionObjectBytes, &s));
  *s = {};
  CRIA_TRY(take(&arena, kCacheObjectBytes * n_kinds, &s->states.caches));
  if constexpr (kHasBlocks) {
    s->states.n_slots = state_slots(model.config, plan.input.n_snapshots);
    CRIA_TRY(take(&arena, kSlotObjectBytes * s->states.n_slots, &s->states.slots));
  }
  CRIA_TRY(take(&arena, sizes.kv_cache, &state));
  CRIA_TRY(take(&arena, sizes.history, &s->history));
  CRIA_TRY(take(&arena, uint64_t{m.vocab_size} * sizeof(float), &s->logits));
  CRIA_TRY(take(&arena, uint64_t{m.d_model} * sizeof(float), &s->last_row));
  s->model = &model;
  s->context = plan.input.context;
  s->kv_format = plan.input.kv_format;
  Carver carver(state);
  for (size_t kind = 0; kind < n_kinds; ++kind) {
    s->states.caches[kind] = make_cache(model.config, kind, plan.input, &carver);
  }
  choose_rope_rates(m, model.weights, s->context, &s->states);
  if constexpr (kHasBlocks) cut(s, 0);
  s->first_moved = UINT32_MAX;
  s->random = Pcg32::seeded(0);
  s->n_bytes = arena.used();
  *session = s;
  return Status::kOk;
}

Status make_workspace(const cria_model& model, const cria_config& config, std::span<uint8_t> memory,
                      cria_workspace** workspace) {
  Plan plan;
  CRIA_TRY(plan_of(model, config, &plan));
  const MemoryPlan::Workspace& sizes = plan.memory.workspace;
  if (memory.size() < sizes.total) return Status::kMemoryTooSmall;
  Arena arena(memory.data(), static_cast<size_t>(sizes.total));
  cria_workspace* w = nullptr;
  uint8_t* of_backend = nullptr;
  uint8_t* scratch = nullptr;
  CRIA_TRY(take(&arena, sizes.objects, &w));
  CRIA_TRY(take(&arena, sizes.backend, &of_backend));
  CRIA_TRY(take(&arena, scratch_bytes(sizes), &scratch));
  *w = {};
  w->model = &model;
  w->threads = {plan.input.n_threads, config.parallel_for, config.parallel_context};
  w->n_rows = plan.input.prefill_chunk;
  w->max_entries = plan.input.max_entries;
  w->progress = config.step_progress;
  w->progress_context = config.progress_context;
  w->scratch = {scratch, static_cast<size_t>(scratch_bytes(sizes))};
  w->encoding_bytes = static_cast<size_t>(sizes.encoding);
  w->n_bytes = arena.used();
  if (!plan.input.text_only) {
    w->can_run = true;
    w->backend = of_backend;
    CRIA_TRY(model.backend->start(model.config, model.weights, of_backend,
                                  plan.input.backend_workspace_bytes));
    Carver carver(scratch);
    w->step = lay_out_step(model.config, plan.input, &carver);
  }
  *workspace = w;
  return Status::kOk;
}

}  // namespace
}  // namespace cria

extern "C" cria_status cria_start(void* memory, size_t n_bytes, const cria_model* model,
                                  const cria_config* config, cria_session** session) {
  if (memory == nullptr || model == nullptr || config == nullptr || session == nullptr) {
    return CRIA_INVALID_ARGUMENT;
  }
  *session = nullptr;
  if (!cria::is_aligned(memory)) return CRIA_MISALIGNED;
  return cria::to_public(
      cria::start(*model, *config, {static_cast<uint8_t*>(memory), n_bytes}, session));
}

extern "C" cria_status cria_make_workspace(void* memory, size_t n_bytes, const cria_model* model,
                                           const cria_config* config, cria_workspace** workspace) {
  if (memory == nullptr || model == nullptr || config == nullptr || workspace == nullptr) {
    return CRIA_INVALID_ARGUMENT;
  }
  *workspace = nullptr;
  if (!cria::is_aligned(memory)) return CRIA_MISALIGNED;
  return cria::to_public(
      cria::make_workspace(*model, *config, {static_cast<uint8_t*>(memory), n_bytes}, workspace));
}
