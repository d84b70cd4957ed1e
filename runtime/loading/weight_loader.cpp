#include "runtime/loading/weight_loader.h"

#include "runtime/base/parallel.h"
#include "runtime/loading/chunk_loader.h"
#include "runtime/loading/planning.h"

namespace cria {
namespace {

bool is_stored(const format::ModelConfig& c) {
  return c.compression == static_cast<uint32_t>(format::Compression::kStored);
}

uint64_t aligned(uint64_t bytes) {
  return (bytes + format::kAlignment - 1) / format::kAlignment * format::kAlignment;
}

// Where the tensors that stay in the file's layout lie: in the arena or in the mapped file. In the
// arena only kept tensors have a place, in the file all of them.
struct WeightPlaces {
  uint8_t* arena;         // null when in place
  const uint8_t* mapped;  // the data section, null when in the arena
  KeptTensors kept;
};

uint64_t weight_offset(const format::ModelConfig& c, uint32_t tensor, const WeightPlaces& places) {
  return tensor_offset(c, tensor, places.mapped != nullptr ? KeptTensors::kAll : places.kept);
}

ChunkScratch chunk_scratch(const cria_session& s, size_t task) {
  uint8_t* p = s.step + aligned(s.plan_input.backend_load_bytes) +
               task * (aligned(kDecompressorBytes) + aligned(kStagingBytes));
  return {p, p + aligned(kDecompressorBytes)};
}

// Loads or checks chunks [begin, end). Chunks of tensors that the backend packs are its own affair.
Status load_chunks(const cria_session& s, const WeightPlaces& places, size_t begin, size_t end,
                   const ChunkScratch& scratch) {
  const format::ModelConfig& c = s.model.config;
  ChunkWalk walk(c, static_cast<uint32_t>(begin));
  uint32_t tensor = format::kNone;
  bool kept = false;
  uint64_t offset = 0;
  for (size_t i = begin; i < end; ++i, walk.advance()) {
    const ChunkPlace chunk = walk.place();
    if (chunk.tensor != tensor) {
      tensor = chunk.tensor;
      kept = is_kept(tensor_spec(c, tensor), places.kept);
      offset = weight_offset(c, tensor, places);
    }
    if (!kept) continue;
    if (places.mapped != nullptr) {
      CRIA_TRY(check_chunk_in_place(s.source, s.index, chunk,
                                    places.mapped + offset + chunk.tensor_offset));
    } else {
      CRIA_TRY(load_chunk(s.source, s.index, chunk, scratch,
                          places.arena + offset + chunk.tensor_offset));
    }
  }
  return Status::kOk;
}

Status load_weights(const cria_session& s, const WeightPlaces& places) {
  Status results[kMaxThreads] = {};
  parallel_ranges(s, s.index.n_chunks, [&](size_t begin, size_t end, size_t task) {
    results[task] = load_chunks(s, places, begin, end, chunk_scratch(s, task));
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
  const uint8_t* base = places.mapped != nullptr ? places.mapped : places.arena;
  uint64_t offset = 0;
  const uint32_t n_tensors = tensor_count(c);
  for (uint32_t i = 0; i < n_tensors; ++i) {
    const TensorSpec spec = tensor_spec(c, i);
    const bool kept = is_kept(spec, places.kept);
    const uint8_t* place = kept ? base + offset : nullptr;
    const Matrix matrix = spec.is_matrix ? make_matrix(spec, i, place, kept) : Matrix{};
    bind_tensor(&s->model, spec, matrix,
                spec.is_matrix ? nullptr : reinterpret_cast<const float*>(place));
    if (places.mapped != nullptr || kept) offset += aligned(tensor_bytes(spec));
  }
}

}  // namespace

Status open_weights(cria_session* s, bool skip_checksums) {
  WeightPlaces places = {};
  places.kept =
      s->plan_input.backend_keeps_tile16 ? KeptTensors::kAll : KeptTensors::kVectorsAndEmbedding;
  if (s->plan_input.mapped && is_stored(s->model.config)) {
    // open_index found the section's size to be that of all tensors.
    places.mapped = map_source(s->source, s->index.data.offset, s->index.data.bytes);
    if (places.mapped == nullptr) return Status::kReadFailed;
    if (reinterpret_cast<uintptr_t>(places.mapped) % format::kAlignment != 0) {
      return Status::kMisaligned;
    }
  } else {
    places.arena = s->arena.take(s->plan.weights);
    if (places.arena == nullptr) return Status::kMemoryTooSmall;
  }
  bind_model(s, places);
  if (places.mapped != nullptr && skip_checksums) return Status::kOk;
  return load_weights(*s, places);
}

}  // namespace cria
