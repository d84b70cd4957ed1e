#include "runtime/loading/weight_loader.h"

#include <atomic>

#include "quant/align.h"
#include "runtime/loading/chunk_loader.h"

namespace cria {
namespace {

bool is_stored(const format::ModelConfig& c) {
  return c.compression == static_cast<uint32_t>(format::Compression::kStored);
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

// What all threads have brought, and whether to go on.
struct Progress {
  std::atomic<uint64_t> n_done = 0;
  std::atomic<bool> is_cancelled = false;
};

// Counts bytes; the hook hears of them from one thread.
Status report(const WeightLoading& from, uint64_t n_bytes, bool is_first_task, Progress* progress) {
  if (from.progress == nullptr) return Status::kOk;
  const uint64_t done = progress->n_done.fetch_add(n_bytes) + n_bytes;
  if (is_first_task &&
      from.progress(from.progress_context, done, all_tensor_bytes(from.index.config)) != 0) {
    progress->is_cancelled = true;
  }
  return progress->is_cancelled ? Status::kCancelled : Status::kOk;
}

// Loads or checks chunks [begin, end). Chunks of tensors that the backend packs are its own affair.
Status load_chunks(const WeightLoading& from, const WeightPlaces& places, Range chunks, size_t task,
                   Progress* progress) {
  const format::ModelConfig& c = from.index.config;
  const ChunkScratch scratch = chunk_scratch(from.chunk_scratch, task);
  ChunkWalk walk(c, static_cast<uint32_t>(chunks.begin));
  uint32_t tensor = format::kNone;
  bool kept = false;
  uint64_t offset = 0;
  for (size_t i = chunks.begin; i < chunks.end; ++i, walk.advance()) {
    const ChunkPlace chunk = walk.place();
    if (chunk.tensor != tensor) {
      tensor = chunk.tensor;
      kept = is_kept(tensor_spec(c, tensor), places.kept);
      offset = weight_offset(c, tensor, places);
    }
    if (!kept) continue;
    if (places.mapped != nullptr) {
      CRIA_TRY(check_chunk_in_place(from.source, from.index, chunk,
                                    places.mapped + offset + chunk.tensor_offset));
    } else {
      CRIA_TRY(load_chunk(from.source, from.index, chunk, scratch,
                          places.arena + offset + chunk.tensor_offset));
    }
    CRIA_TRY(report(from, chunk.raw_bytes, task == 0, progress));
  }
  return Status::kOk;
}

Status load_weights(const WeightLoading& from, const WeightPlaces& places) {
  Status results[CRIA_MAX_THREADS] = {};
  Progress progress;
  parallel_ranges(from.threads, from.index.n_chunks, [&](size_t begin, size_t end, size_t task) {
    results[task] = load_chunks(from, places, {begin, end}, task, &progress);
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

// Points the layer's fields at one tensor.
void bind_layer_tensor(Layer* layer, format::TensorRole role, const Matrix& matrix,
                       const float* vector) {
  for (const LayerMatrix& m : kLayerMatrices) {
    if (m.role == role) layer->*m.matrix = matrix;
    if (m.bias == role) (layer->*m.matrix).bias = vector;
  }
  for (const LayerVector& v : kLayerVectors) {
    if (v.role == role) layer->*v.vector = vector;
  }
}

void bind_tensor(Weights* weights, bool is_tied, const TensorSpec& spec, const Matrix& matrix,
                 const float* vector) {
  using format::TensorRole;
  if (spec.layer != format::kNone) {
    return bind_layer_tensor(&weights->layers[spec.layer], spec.role, matrix, vector);
  }
  if (spec.role == TensorRole::kRopeInverseFrequencies) weights->rope_inverse_frequencies = vector;
  if (spec.role == TensorRole::kFinalNorm) weights->final_norm = vector;
  if (spec.role == TensorRole::kEmbedding) weights->embedding = matrix;
  if (spec.role == TensorRole::kLmHead || (spec.role == TensorRole::kEmbedding && is_tied)) {
    weights->lm_head = matrix;
  }
}

void bind_weights(const format::ModelConfig& c, const WeightPlaces& places, Weights* weights) {
  const bool is_tied = (c.flags & format::kTiedEmbedding) != 0;
  const uint8_t* base = places.mapped != nullptr ? places.mapped : places.arena;
  uint64_t offset = 0;
  const uint32_t n_tensors = tensor_count(c);
  for (uint32_t i = 0; i < n_tensors; ++i) {
    const TensorSpec spec = tensor_spec(c, i);
    const bool kept = is_kept(spec, places.kept);
    const uint8_t* place = kept ? base + offset : nullptr;
    const Matrix matrix = spec.is_matrix ? make_matrix(spec, i, place, kept) : Matrix{};
    bind_tensor(weights, is_tied, spec, matrix,
                spec.is_matrix ? nullptr : reinterpret_cast<const float*>(place));
    if (places.mapped != nullptr || kept) offset += aligned(tensor_bytes(spec));
  }
}

}  // namespace

Status open_weights(const WeightLoading& from, bool skip_checksums, Arena* arena,
                    Weights* weights) {
  const format::ModelConfig& c = from.index.config;
  WeightPlaces places = {};
  places.kept =
      from.plan.input.backend_keeps_tile16 ? KeptTensors::kAll : KeptTensors::kVectorsAndEmbedding;
  if (from.plan.input.mapped && is_stored(c)) {
    // open_index found the section's size to be that of all tensors.
    places.mapped = map_source(from.source, from.index.data.offset, from.index.data.bytes);
    if (places.mapped == nullptr) return Status::kReadFailed;
    if (!is_aligned(places.mapped)) return Status::kMisaligned;
  } else {
    places.arena = arena->take(from.plan.memory.model.weights);
    if (places.arena == nullptr) return Status::kMemoryTooSmall;
  }
  bind_weights(c, places, weights);
  if (places.mapped != nullptr && skip_checksums) return Status::kOk;
  return load_weights(from, places);
}

}  // namespace cria
