// cria_open: from a source and a block of memory to a session.
#include "runtime/decode/decoder.h"
#include "runtime/decode/session.h"
#include "runtime/loading/file_check.h"
#include "runtime/loading/planning.h"
#include "runtime/loading/weight_loader.h"

namespace cria {
namespace {

bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % format::kAlignment == 0; }

// Takes memory that the plan has counted; failing means that plan and code disagree.
template <typename T>
Status take(cria_session* s, uint64_t n_bytes, T** out) {
  *out = reinterpret_cast<T*>(s->arena.take(n_bytes));
  return *out != nullptr ? Status::kOk : Status::kMemoryTooSmall;
}

// Tables used where they are mapped need no memory.
Status open_text_tables(cria_session* s, uint64_t* at) {
  TextMemory memory = {};
  if (!s->plan_input.mapped) {
    CRIA_TRY(take(s, s->index.tokenizer.bytes, &memory.tokenizer));
    CRIA_TRY(take(s, s->index.chat_template.bytes, &memory.chat_template));
  }
  TextTables text;
  CRIA_TRY(open_text(s->source, s->index, memory, &text, at));
  s->has_tokenizer = text.has_tokenizer;
  s->has_chat_template = text.has_chat_template;
  s->tokenizer = text.tokenizer;
  s->chat_template = text.chat_template;
  return Status::kOk;
}

Status take_session_memory(cria_session* s) {
  const format::ModelConfig& c = s->model.config;
  const KvLayout kv = kv_layout(c, s->plan_input.context, s->plan_input.kv_format);
  s->kv = {};
  s->kv.kv_format = s->plan_input.kv_format;
  s->kv.n_kv_heads = c.n_kv_heads;
  s->kv.context = s->plan_input.context;
  s->kv.head_dim = c.head_dim;
  CRIA_TRY(take(s, kv.codes, &s->kv.key_codes));
  CRIA_TRY(take(s, kv.codes, &s->kv.value_codes));
  CRIA_TRY(take(s, kv.scales, &s->kv.key_scales));
  CRIA_TRY(take(s, kv.scales, &s->kv.value_scales));
  CRIA_TRY(take(s, s->plan.history, &s->history));
  return take(s, s->plan.logits, &s->logits);
}

// The step memory is needed while loading, but lies behind everything else: its place is known from
// the plan.
Status find_step_memory(cria_session* s, uint8_t* memory) {
  s->step = memory + (s->plan.total - s->plan.step);
  return Status::kOk;
}

Status open_session(void* memory, size_t n_bytes, const cria_source& source,
                    const cria_config& config, cria_session** session) {
  FileIndex index;
  const char* refused = nullptr;
  uint64_t at = 0;
  CRIA_TRY(open_index(source, &index, &refused, &at));
  SessionPlan plan;
  CRIA_TRY(
      plan_session(index.config, index.tokenizer.bytes, index.chat_template.bytes, config, &plan));
  if (config.source_is_mapped != 0 && source.map == nullptr) return Status::kInvalidArgument;
  Kernels kernels;
  if (!select_kernels(config.isa_mask, &kernels)) return Status::kUnsupported;
  if (n_bytes < plan.memory.total) return Status::kMemoryTooSmall;

  Arena arena(memory, static_cast<size_t>(plan.memory.total));
  auto* s = reinterpret_cast<cria_session*>(arena.take(kSessionObjectBytes));
  auto* layers = reinterpret_cast<Layer*>(arena.take(kLayerObjectBytes * index.config.n_layers));
  if (s == nullptr || layers == nullptr) return Status::kMemoryTooSmall;
  *s = {};
  for (uint32_t i = 0; i < index.config.n_layers; ++i) layers[i] = {};
  s->source = source;
  s->arena = arena;
  s->index = index;
  s->model.config = index.config;
  s->model.layers = layers;
  s->plan_input = plan.input;
  s->plan = plan.memory;
  s->backend = plan.backend;
  s->kernel_table = kernels;
  s->kernels = &s->kernel_table;
  s->parallel_for = config.parallel_for;
  s->parallel_context = config.parallel_context;
  s->random = Pcg32::seeded(0);

  CRIA_TRY(find_step_memory(s, static_cast<uint8_t*>(memory)));
  CRIA_TRY(check_tables(source, index, &at));
  CRIA_TRY(open_text_tables(s, &at));
  CRIA_TRY(open_weights(s, config.skip_checksums != 0));
  const size_t before_backend = s->arena.used();
  CRIA_TRY(s->backend->load(s));
  if (s->arena.used() - before_backend != s->plan.backend) return Status::kBackendFailed;
  CRIA_TRY(take_session_memory(s));
  uint8_t* step = nullptr;
  CRIA_TRY(take(s, s->plan.step, &step));
  if (step != s->step) return Status::kMemoryTooSmall;
  s->arena.seal();
  lay_out_scratch(s);
  *session = s;
  return Status::kOk;
}

}  // namespace
}  // namespace cria

extern "C" cria_status cria_open(void* memory, size_t n_bytes, const cria_source* source,
                                 const cria_config* config, cria_session** session) {
  if (memory == nullptr || source == nullptr || config == nullptr || session == nullptr ||
      (source->map == nullptr && source->read == nullptr)) {
    return CRIA_INVALID_ARGUMENT;
  }
  *session = nullptr;
  if (!cria::is_aligned(memory)) return CRIA_MISALIGNED;
  return static_cast<cria_status>(cria::open_session(memory, n_bytes, *source, *config, session));
}
