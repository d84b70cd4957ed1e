// cria_load and cria_open: from a source and memory to a model, and to one of each object.
#include "quant/format/align.h"
#include "runtime/base/arena.h"
#include "runtime/blocks/blocks.h"
#include "runtime/decode/model.h"
#include "runtime/decode/planning.h"
#include "runtime/loading/file_check.h"
#include "runtime/weights/weight_loader.h"

namespace cria {
namespace {

struct Loading {
  const cria_source& source;
  const cria_config& config;
  std::span<uint8_t> memory;
  std::span<uint8_t> scratch;
};

// Tables used where they are mapped need no memory.
Status open_text_tables(const Loading& from, Arena* arena, cria_model* m) {
  TextMemory memory = {};
  if (from.config.source_is_mapped == 0) {
    CRIA_TRY(take(arena, m->index.tokenizer.bytes, &memory.tokenizer));
    CRIA_TRY(take(arena, m->index.chat_template.bytes, &memory.chat_template));
  }
  TextTables text;
  uint64_t at = 0;
  CRIA_TRY(open_text(from.source, m->index, memory, &text, &at));
  m->has_tokenizer = text.has_tokenizer;
  m->has_chat_template = text.has_chat_template;
  m->tokenizer = text.tokenizer;
  m->chat_template = text.chat_template;
  return Status::kOk;
}

// A tied embedding is packed besides being kept.
uint64_t bytes_to_load(const Config& c, const Plan& plan) {
  const bool is_twice = has_flag(c, format::kTiedEmbedding) && !plan.input.backend_keeps_tile16;
  return all_tensor_bytes(c) +
         (is_twice ? matrix_bytes(model_matrix(c, format::TensorRole::kEmbedding)) : 0);
}

Status open_all_weights(const Loading& from, const Plan& plan, Arena* arena, cria_model* m) {
  const Threads threads = {plan.input.n_threads, from.config.parallel_for,
                           from.config.parallel_context};
  uint8_t* const of_backend = from.scratch.data();
  uint8_t* const of_chunks = of_backend + aligned(plan.input.backend_load_bytes);
  LoadProgress progress(from.config.load_progress, from.config.progress_context,
                        bytes_to_load(m->config, plan));
  const WeightLoading loading = {from.source, m->index,  plan.input, plan.memory,
                                 threads,     of_chunks, &progress};
  CRIA_TRY(open_weights(loading, from.config.skip_checksums != 0, arena, &m->weights));
  uint8_t* packed = nullptr;
  CRIA_TRY(take(arena, plan.memory.model.backend, &packed));
  const PackSource pack = {from.source, m->index, threads, of_backend, of_chunks, &progress};
  CRIA_TRY(plan.backend->load(pack, &m->weights, packed, plan.input.backend_model_bytes));
  m->has_weights = true;
  return progress.finish();
}

Status load(const Loading& from, const FileIndex& index, const Plan& plan, cria_model** model) {
  Kernels kernels;
  if (!select_kernels(from.config.isa_mask, &kernels)) return Status::kUnsupported;
  if (from.config.source_is_mapped != 0 && from.source.map == nullptr) {
    return Status::kInvalidArgument;
  }
  if (from.memory.size() < plan.memory.model.total || from.scratch.size() < plan.memory.loading) {
    return Status::kMemoryTooSmall;
  }
  Arena arena(from.memory.data(), static_cast<size_t>(plan.memory.model.total));
  uint8_t* objects = nullptr;
  CRIA_TRY(take(&arena, plan.memory.model.objects, &objects));
  Carver carver(objects);
  auto* const m = reinterpret_cast<cria_model*>(carver.take<uint8_t>(kModelObjectBytes));
  // Before anything is written to where it may stand now.
  const uint64_t n_config_bytes = config_bytes(*index.config.model);
  const Config config = move_section(index.config, carver.take<uint8_t>(n_config_bytes));
  *m = {};
  m->index = index;
  m->index.config = config;
  m->config = config;
  m->backend = plan.backend;
  m->kernels = kernels;
  if (!plan.input.text_only) {
    lay_out_weights(m->config, &carver, &m->weights);
    find_blocks(m->weights);
  }
  uint64_t at = 0;
  CRIA_TRY(check_tables(from.source, m->index, &at));
  CRIA_TRY(open_text_tables(from, &arena, m));
  if (!plan.input.text_only) CRIA_TRY(open_all_weights(from, plan, &arena, m));
  if (arena.used() != plan.memory.model.total) return Status::kBackendFailed;
  m->n_bytes = arena.used();
  *model = m;
  return Status::kOk;
}

// What the file says it holds, and the plan for it. The config stands at the end of the memory that
// the model will have, of which every plan has as much.
Status plan_file(const cria_source& source, const cria_config& config, std::span<uint8_t> memory,
                 FileIndex* index, Plan* plan) {
  if (memory.size() < sizeof(ConfigBytes)) return Status::kMemoryTooSmall;
  const size_t end = memory.size() / format::kAlignment * format::kAlignment;
  auto* const section = reinterpret_cast<ConfigBytes*>(memory.data() + end - sizeof(ConfigBytes));
  const char* refused = nullptr;
  uint64_t at = 0;
  CRIA_TRY(open_index(source, section, index, &refused, &at));
  return make_plan({index->config, index->tokenizer.bytes, index->chat_template.bytes, nullptr},
                   config, plan);
}

Status load_model(const Loading& from, cria_model** model) {
  FileIndex index;
  Plan plan;
  CRIA_TRY(plan_file(from.source, from.config, from.memory, &index, &plan));
  return load(from, index, plan, model);
}

// Model, session and workspace in this order; loading is done where the workspace will be.
Status open(const cria_source& source, const cria_config& config, std::span<uint8_t> memory,
            cria_instance* opened) {
  FileIndex index;
  Plan plan;
  CRIA_TRY(plan_file(source, config, memory, &index, &plan));
  if (memory.size() < plan.memory.total) return Status::kMemoryTooSmall;
  const auto model_bytes = static_cast<size_t>(plan.memory.model.total);
  const auto session_bytes = static_cast<size_t>(plan.memory.session.total);
  const std::span<uint8_t> of_session = memory.subspan(model_bytes);
  const std::span<uint8_t> of_workspace = of_session.subspan(session_bytes);
  CRIA_TRY(load({source, config, memory, of_workspace}, index, plan, &opened->model));
  if (!plan.input.text_only) {
    CRIA_TRY(from_public(cria_start(of_session.data(), of_session.size(), opened->model, &config,
                                    &opened->session)));
  }
  return from_public(cria_make_workspace(of_workspace.data(), of_workspace.size(), opened->model,
                                         &config, &opened->workspace));
}

bool is_source(const cria_source* source) {
  return source != nullptr && (source->map != nullptr || source->read != nullptr);
}

}  // namespace
}  // namespace cria

extern "C" cria_status cria_load(void* memory, size_t n_bytes, void* scratch, size_t scratch_bytes,
                                 const cria_source* source, const cria_config* config,
                                 cria_model** model) {
  if (memory == nullptr || (scratch == nullptr && scratch_bytes != 0) || config == nullptr ||
      model == nullptr || !cria::is_source(source)) {
    return CRIA_INVALID_ARGUMENT;
  }
  *model = nullptr;
  if (!cria::is_aligned(memory) || !cria::is_aligned(scratch)) return CRIA_MISALIGNED;
  return cria::to_public(cria::load_model({*source,
                                           *config,
                                           {static_cast<uint8_t*>(memory), n_bytes},
                                           {static_cast<uint8_t*>(scratch), scratch_bytes}},
                                          model));
}

extern "C" cria_status cria_open(void* memory, size_t n_bytes, const cria_source* source,
                                 const cria_config* config, cria_instance* instance) {
  if (memory == nullptr || config == nullptr || instance == nullptr || !cria::is_source(source)) {
    return CRIA_INVALID_ARGUMENT;
  }
  *instance = {};
  if (!cria::is_aligned(memory)) return CRIA_MISALIGNED;
  cria_instance opened = {};
  const cria::Status status =
      cria::open(*source, *config, {static_cast<uint8_t*>(memory), n_bytes}, &opened);
  if (status == cria::Status::kOk) *instance = opened;
  return cria::to_public(status);
}
