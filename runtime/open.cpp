// cria_open: from a source and a block of memory to a session.
#include <cstring>

#include "quant/checksum.h"
#include "runtime/assert.h"
#include "runtime/chunk_loader.h"
#include "runtime/decoder.h"
#include "runtime/parallel.h"
#include "runtime/planning.h"
#include "runtime/session.h"

namespace cria {
namespace {

bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % format::kAlignment == 0; }

bool is_stored(const format::ModelConfig& c) {
  return c.compression == static_cast<uint32_t>(format::Compression::kStored);
}

uint64_t aligned(uint64_t bytes) {
  return (bytes + format::kAlignment - 1) / format::kAlignment * format::kAlignment;
}

// Takes memory that the plan has counted; failing means that plan and code disagree.
template <typename T>
Status take(cria_session* s, uint64_t n_bytes, T** out) {
  *out = reinterpret_cast<T*>(s->arena.take(n_bytes));
  return *out != nullptr ? Status::kOk : Status::kMemoryTooSmall;
}

// A section's bytes: in place when mapped, else copied into the arena. Checked against its sum.
Status bring_section(cria_session* s, const Section& section, std::span<const uint8_t>* bytes) {
  const uint8_t* p = nullptr;
  const auto n = static_cast<size_t>(section.bytes);
  if (s->plan_input.mapped) {
    p = map_source(s->source, section.offset, section.bytes);
    if (p == nullptr) return Status::kReadFailed;
    if (!is_aligned(p)) return Status::kMisaligned;
  } else {
    uint8_t* copy = nullptr;
    CRIA_TRY(take(s, section.bytes, &copy));
    CRIA_TRY(read_source(s->source, section.offset, copy, n));
    p = copy;
  }
  *bytes = {p, n};
  return xxh64(p, n) == section.checksum ? Status::kOk : Status::kCorrupt;
}

Status open_text(cria_session* s) {
  std::span<const uint8_t> bytes;
  if (s->index.tokenizer.bytes != 0) {
    CRIA_TRY(bring_section(s, s->index.tokenizer, &bytes));
    CRIA_TRY(tokenizer_open(bytes, s->model.config.vocab_size, &s->tokenizer));
    s->has_tokenizer = true;
  }
  if (s->index.chat_template.bytes != 0) {
    CRIA_TRY(bring_section(s, s->index.chat_template, &bytes));
    CRIA_TRY(chat_template_open(bytes, &s->chat_template));
    s->has_chat_template = s->has_tokenizer;
  }
  return Status::kOk;
}

// Where the tensors that stay in the file's layout lie: in the arena or in the mapped file.
struct WeightPlaces {
  uint8_t* arena;         // null when in place
  const uint8_t* mapped;  // the data section, null when in the arena
  bool keeps_all;         // else vectors and the embedding only
};

bool is_kept(const TensorSpec& spec, const WeightPlaces& places) {
  return places.keeps_all || !spec.is_matrix || spec.role == format::TensorRole::kEmbedding;
}

// Offset of a tensor behind the tensors kept before it. In the file all tensors count.
uint64_t weight_offset(const format::ModelConfig& c, uint32_t tensor, const WeightPlaces& places) {
  uint64_t offset = 0;
  for (uint32_t i = 0; i < tensor; ++i) {
    const TensorSpec spec = tensor_spec(c, i);
    if (places.mapped != nullptr || is_kept(spec, places)) offset += aligned(tensor_bytes(spec));
  }
  return offset;
}

const uint8_t* weight_place(const format::ModelConfig& c, uint32_t tensor,
                            const WeightPlaces& places) {
  const uint8_t* base = places.mapped != nullptr ? places.mapped : places.arena;
  return base + weight_offset(c, tensor, places);
}

ChunkScratch chunk_scratch(const cria_session& s, size_t task) {
  uint8_t* p = s.step + aligned(s.plan_input.backend_load_bytes) +
               task * (aligned(kDecompressorBytes) + aligned(kStagingBytes));
  return {p, p + aligned(kDecompressorBytes)};
}

// Loads or checks chunks [begin, end). Chunks of tensors that the backend packs are its own affair.
Status load_chunks(const cria_session& s, const WeightPlaces& places, bool skip_checksums,
                   size_t begin, size_t end, const ChunkScratch& scratch) {
  const format::ModelConfig& c = s.model.config;
  if (begin == end) return Status::kOk;
  ChunkWalk walk(c, static_cast<uint32_t>(begin));
  uint32_t tensor = format::kNone;
  bool kept = false;
  const uint8_t* place = nullptr;
  for (size_t i = begin; i < end; ++i, walk.advance()) {
    const ChunkPlace chunk = walk.place();
    if (chunk.tensor != tensor) {
      tensor = chunk.tensor;
      kept = is_kept(tensor_spec(c, tensor), places);
      place = weight_place(c, tensor, places);
    }
    const auto number = static_cast<uint32_t>(i);
    if (!kept) continue;
    if (places.mapped != nullptr) {
      format::ChunkEntry entry;
      CRIA_TRY(read_chunk_entry(s.source, s.index, number, chunk.raw_bytes, &entry));
      if (s.source.map == nullptr || skip_checksums) continue;
      CRIA_TRY(check_stored_chunk(entry, place + chunk.tensor_offset));
    } else {
      uint8_t* destination = places.arena + (place - places.arena) + chunk.tensor_offset;
      CRIA_TRY(load_chunk(s.source, s.index, number, chunk.raw_bytes, scratch, destination));
    }
  }
  return Status::kOk;
}

Status load_weights(cria_session* s, const WeightPlaces& places, bool skip_checksums) {
  Status results[kMaxThreads] = {};
  parallel_ranges(*s, s->index.n_chunks, [&](size_t begin, size_t end, size_t task) {
    results[task] = load_chunks(*s, places, skip_checksums, begin, end, chunk_scratch(*s, task));
  });
  for (const Status status : results) CRIA_TRY(status);
  return Status::kOk;
}

Matrix make_matrix(const TensorSpec& spec, uint32_t tensor, const uint8_t* place, bool kept) {
  Matrix m = {};
  m.shape = spec.shape;
  m.tensor = tensor;
  if (kept) {
    m.codes = place;
    m.scales = tensor_scale_bytes(spec) != 0 ? place + tensor_code_bytes(spec) : nullptr;
  }
  return m;
}

// Points the model's fields at one tensor.
void bind_tensor(Model* model, const TensorSpec& spec, const Matrix& matrix, const float* vector) {
  using format::TensorRole;
  Layer* layer = spec.layer != format::kNone ? &model->layers[spec.layer] : nullptr;
  switch (spec.role) {
    case TensorRole::kRopeInverseFrequencies:
      model->rope_inverse_frequencies = vector;
      return;
    case TensorRole::kEmbedding:
      model->embedding = matrix;
      if ((model->config.flags & format::kTiedEmbedding) != 0) model->lm_head = matrix;
      return;
    case TensorRole::kFinalNorm:
      model->final_norm = vector;
      return;
    case TensorRole::kLmHead:
      model->lm_head = matrix;
      return;
    case TensorRole::kAttentionNorm:
      layer->attention_norm = vector;
      return;
    case TensorRole::kFfnNorm:
      layer->ffn_norm = vector;
      return;
    case TensorRole::kQ:
      layer->q = matrix;
      return;
    case TensorRole::kK:
      layer->k = matrix;
      return;
    case TensorRole::kV:
      layer->v = matrix;
      return;
    case TensorRole::kO:
      layer->o = matrix;
      return;
    case TensorRole::kGate:
      layer->gate = matrix;
      return;
    case TensorRole::kUp:
      layer->up = matrix;
      return;
    case TensorRole::kDown:
      layer->down = matrix;
      return;
    case TensorRole::kQBias:
      layer->q.bias = vector;
      return;
    case TensorRole::kKBias:
      layer->k.bias = vector;
      return;
    case TensorRole::kVBias:
      layer->v.bias = vector;
      return;
    case TensorRole::kOBias:
      layer->o.bias = vector;
      return;
    case TensorRole::kGateBias:
      layer->gate.bias = vector;
      return;
    case TensorRole::kUpBias:
      layer->up.bias = vector;
      return;
    case TensorRole::kDownBias:
      layer->down.bias = vector;
      return;
  }
}

void bind_model(cria_session* s, const WeightPlaces& places) {
  const format::ModelConfig& c = s->model.config;
  for (uint32_t i = 0; i < tensor_count(c); ++i) {
    const TensorSpec spec = tensor_spec(c, i);
    const bool kept = is_kept(spec, places);
    const uint8_t* place = kept ? weight_place(c, i, places) : nullptr;
    const Matrix matrix = spec.is_matrix ? make_matrix(spec, i, place, kept) : Matrix{};
    bind_tensor(&s->model, spec, matrix,
                spec.is_matrix ? nullptr : reinterpret_cast<const float*>(place));
  }
}

Status open_weights(cria_session* s, bool skip_checksums) {
  WeightPlaces places = {};
  places.keeps_all = s->plan_input.backend_keeps_tile16;
  if (s->plan_input.mapped && is_stored(s->model.config)) {
    places.mapped = map_source(s->source, s->index.data.offset, s->index.data.bytes);
    if (places.mapped == nullptr) return Status::kReadFailed;
    if (!is_aligned(places.mapped)) return Status::kMisaligned;
    // The chunk table will be found to agree: uncompressed, all the weights are there.
    if (s->index.data.bytes <
        weight_offset(s->model.config, tensor_count(s->model.config) - 1, places)) {
      return Status::kCorrupt;
    }
  } else {
    CRIA_TRY(take(s, s->plan.weights, &places.arena));
  }
  bind_model(s, places);
  return load_weights(s, places, skip_checksums);
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
  CRIA_TRY(open_index(source, &index));
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
  CRIA_TRY(check_directory(source, index));
  CRIA_TRY(check_section(source, index.chunk_table));
  CRIA_TRY(open_text(s));
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
