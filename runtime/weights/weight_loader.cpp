#include "runtime/weights/weight_loader.h"

#include "quant/align.h"
#include "runtime/loading/chunk_loader.h"

namespace cria {
namespace {

// Where the tensors that stay in the file's layout lie: in the arena or in the mapped file. In the
// arena only kept tensors have a place, in the file all of them.
struct WeightPlaces {
  const uint8_t* begin;
  uint64_t n_bytes;
  bool in_place;
  KeptTensors kept;
};

// Where a tensor was bound to; null when the backend packs it. kCorrupt when it has become another
// one since.
Status bound_place(Weights* weights, const TensorSpec& spec, const uint8_t** place) {
  const Tensor& tensor = *tensor_of(weights, spec.role, spec.layer);
  if (is_bias(spec.role)) {
    *place = reinterpret_cast<const uint8_t*>(tensor.bias);
    return Status::kOk;
  }
  *place = tensor.codes;
  return tensor.shape == spec.shape ? Status::kOk : Status::kCorrupt;
}

// Loads or checks chunks [begin, end). Chunks of tensors that the backend packs are its own affair.
Status load_chunks(const WeightLoading& from, const WeightPlaces& places, Range chunks, size_t task,
                   Weights* weights) {
  ChunkScratch scratch = chunk_scratch(from.chunk_scratch, task);
  ChunkWalk walk(from.source, from.index);
  uint32_t tensor = format::kNone;
  const uint8_t* bound = nullptr;
  for (size_t i = chunks.begin; i < chunks.end; ++i) {
    CRIA_TRY(i == chunks.begin ? walk.go_to(static_cast<uint32_t>(i)) : walk.advance());
    const ChunkPlace chunk = walk.place();
    if (chunk.tensor != tensor) CRIA_TRY(bound_place(weights, walk.spec(), &bound));
    tensor = chunk.tensor;
    if (bound == nullptr) continue;
    const uint8_t* place = bound + chunk.tensor_offset;
    if (places.in_place) {
      CRIA_TRY(check_chunk_in_place(from.source, from.index, chunk, place));
    } else {
      // The arena's, which this call was given to write to.
      CRIA_TRY(load_chunk(from.source, from.index, chunk, &scratch, const_cast<uint8_t*>(place)));
    }
    CRIA_TRY(from.progress->add(chunk.raw_bytes, task));
  }
  return Status::kOk;
}

Status load_weights(const WeightLoading& from, const WeightPlaces& places, Weights* weights) {
  Status results[CRIA_MAX_THREADS] = {};
  parallel_ranges(from.threads, from.index.n_chunks, [&](size_t begin, size_t end, size_t task) {
    results[task] = load_chunks(from, places, {begin, end}, task, weights);
  });
  for (const Status status : results) CRIA_TRY(status);
  return Status::kOk;
}

// Gives a tensor of the file its place, null: the backend's to pack.
void bind(const TensorSpec& spec, uint32_t number, const uint8_t* place, Weights* weights) {
  Tensor* const tensor = tensor_of(weights, spec.role, spec.layer);
  if (is_bias(spec.role)) {
    tensor->bias = reinterpret_cast<const float*>(place);
    return;
  }
  const bool has_scales = place != nullptr && tensor_scale_bytes(spec) != 0;
  *tensor = {.shape = spec.shape,
             .n_matrices = 1,
             .number = number,
             .codes = place,
             .scales = has_scales ? place + tensor_code_bytes(spec) : nullptr,
             .bias = nullptr,
             .packed = nullptr};
}

// Points the decoder's view at every tensor.
Status bind_weights(const WeightLoading& from, const WeightPlaces& places, Weights* weights) {
  uint64_t offset = 0;
  const uint32_t n_tensors = tensor_count(from.index.config);
  for (uint32_t i = 0; i < n_tensors; ++i) {
    ListedTensor listed;
    CRIA_TRY(read_listed_tensor(from.source, from.index, i, &listed));
    const bool kept = is_kept(listed.spec, places.kept);
    const uint64_t n_bytes = tensor_bytes(listed.spec);
    const uint8_t* place = nullptr;
    if (kept) {
      // A directory that has changed may list more than was planned for.
      if (offset > places.n_bytes || n_bytes > places.n_bytes - offset) return Status::kCorrupt;
      place = places.begin + offset;
    }
    bind(listed.spec, i, place, weights);
    if (places.in_place || kept) offset += aligned(n_bytes);
  }
  return Status::kOk;
}

}  // namespace

Status open_weights(const WeightLoading& from, bool skip_checksums, Arena* arena,
                    Weights* weights) {
  WeightPlaces places = {};
  places.kept =
      from.planned_for.backend_keeps_tile16 ? KeptTensors::kAll : KeptTensors::kVectorsAndEmbedding;
  if (from.planned_for.mapped && is_stored(from.index.config)) {
    // open_index found the section's size to be that of all tensors.
    places.in_place = true;
    places.n_bytes = from.index.data.bytes;
    places.begin = map_source(from.source, from.index.data.offset, places.n_bytes);
    if (places.begin == nullptr) return Status::kReadFailed;
    if (!is_aligned(places.begin)) return Status::kMisaligned;
  } else {
    places.n_bytes = from.memory.model.weights;
    CRIA_TRY(take(arena, places.n_bytes, &places.begin));
  }
  CRIA_TRY(bind_weights(from, places, weights));
  if (places.in_place && skip_checksums) return Status::kOk;
  return load_weights(from, places, weights);
}

}  // namespace cria
