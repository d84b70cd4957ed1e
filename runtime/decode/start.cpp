// cria_start and cria_make_workspace: sessions and workspaces of a model that is loaded.
#include "quant/align.h"
#include "runtime/base/arena.h"
#include "runtime/decode/decoder.h"
#include "runtime/decode/planning.h"
#include "runtime/decode/session.h"

namespace cria {
namespace {

Status plan_of(const cria_model& model, const cria_config& config, Plan* plan) {
  CRIA_TRY(make_plan(
      {model.config, model.index.tokenizer.bytes, model.index.chat_template.bytes, model.backend},
      config, plan));
  // What a model was loaded without cannot be had of it.
  return plan->input.text_only || model.has_weights ? Status::kOk : Status::kNoWeights;
}

// A short context is turned as the model was first trained, a long one as it was stretched; one
// session does not change over, since its keys are turned already.
const float* rope_frequencies(const cria_model& model, uint32_t context) {
  const bool is_long =
      model.config.original_context != 0 && context > model.config.original_context;
  const format::TensorRole role = is_long ? format::TensorRole::kRopeLongInverseFrequencies
                                          : format::TensorRole::kRopeInverseFrequencies;
  return model.weights.outside.find(role)->floats();
}

Status start(const cria_model& model, const cria_config& config, std::span<uint8_t> memory,
             cria_session** session) {
  Plan plan;
  CRIA_TRY(plan_of(model, config, &plan));
  if (plan.input.text_only) return Status::kNoWeights;
  const MemoryPlan::Session& sizes = plan.memory.session;
  if (memory.size() < sizes.total) return Status::kMemoryTooSmall;
  Arena arena(memory.data(), static_cast<size_t>(sizes.total));
  cria_session* s = nullptr;
  CRIA_TRY(take(&arena, sizes.objects, &s));
  *s = {};
  s->model = &model;
  s->context = plan.input.context;
  s->kv.kv_format = plan.input.kv_format;
  s->kv.n_kv_heads = model.config.n_kv_heads;
  s->kv.n_positions = kv_positions(model.config, plan.input.context, plan.input.prefill_chunk);
  s->kv.head_dim = model.config.head_dim;
  s->kv.row_bytes = kv_row_bytes(model.config.head_dim, plan.input.kv_format);
  s->kv.inverse_frequencies = rope_frequencies(model, s->context);
  const KvLayout kv = kv_layout(model.config, s->kv.n_positions, plan.input.kv_format);
  CRIA_TRY(take(&arena, kv.keys, &s->kv.keys));
  CRIA_TRY(take(&arena, kv.values, &s->kv.values));
  CRIA_TRY(take(&arena, kv.key_scales, &s->kv.key_scales));
  CRIA_TRY(take(&arena, kv.value_scales, &s->kv.value_scales));
  CRIA_TRY(take(&arena, sizes.history, &s->history));
  CRIA_TRY(take(&arena, aligned(uint64_t{model.config.vocab_size} * 4), &s->logits));
  CRIA_TRY(take(&arena, aligned(uint64_t{model.config.d_model} * 4), &s->last_row));
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
  w->max_turns = plan.input.max_turns;
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
    lay_out_scratch(plan.input, w);
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
