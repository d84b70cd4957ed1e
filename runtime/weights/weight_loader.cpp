#include "runtime/weights/weight_loader.h"

#include "quant/blocks/block_formats.h"
#include "quant/format/align.h"
#include "runtime/loading/chunk_loader.h"

namespace cria {

void bind_tensor(const TensorSpec& spec, uint32_t number, const uint8_t* place, Weights* weights) {
  Tensor& t = weights->tensors[number];
  t = {};
  t.shape = spec.shape;
  t.n_matrices = spec.n_matrices;
  t.number = number;
  t.form = spec.form;
  t.codes = place;
  const bool has_scales = place != nullptr && tensor_scale_bytes(spec) != 0;
  t.scales = has_scales ? place + tensor_code_bytes(spec) : nullptr;
  // Biases follow their matrices.
  if (is_bias(spec.role)) weights->tensors[number - 1].bias = t.values();
}

namespace {

// Where the tensors that stay in the file's layout lie: mapped, all of them or those that no
// compression touches, or in the arena, which has places only for kept tensors.
struct WeightPlaces {
  const uint8_t* mapped;  // the data section; null: not mapped
  uint64_t n_mapped_bytes;
  uint8_t* memory;
  uint64_t n_bytes;
  KeptTensors kept;
  bool skip_checksums;  // of what is mapped

  [[nodiscard]] bool is_mapped(const uint8_t* place) const {
    return mapped != nullptr && place >= mapped && place < mapped + n_mapped_bytes;
  }
};

// Where a tensor was bound to; null when the backend packs it. kCorrupt when it has become another
// one since.
Status bound_place(const Weights& weights, uint32_t number, const TensorSpec& spec,
                   const uint8_t** place) {
  const Tensor& tensor = weights.tensors[number];
  *place = tensor.codes;
  return tensor.shape == spec.shape ? Status::kOk : Status::kCorrupt;
}

// Loads or checks chunks [begin, end). Chunks of tensors that the backend packs are its own affair.
Status load_chunks(const WeightLoading& from, const WeightPlaces& places, Range chunks, size_t task,
                   const Weights& weights) {
  ChunkScratch scratch = chunk_scratch(from.chunk_scratch, task);
  ChunkWalk walk(from.source, from.index);
  uint32_t tensor = format::kNone;
  const uint8_t* bound = nullptr;
  for (size_t i = chunks.begin; i < chunks.end; ++i) {
    CRIA_TRY(i == chunks.begin ? walk.go_to(static_cast<uint32_t>(i)) : walk.advance());
    const ChunkPlace chunk = walk.place();
    if (chunk.tensor != tensor) {
      CRIA_TRY(bound_place(weights, chunk.tensor, walk.spec(), &bound));
    }
    tensor = chunk.tensor;
    if (bound == nullptr) continue;
    const uint8_t* place = bound + chunk.tensor_offset;
    if (places.is_mapped(bound)) {
      if (places.skip_checksums) continue;
      CRIA_TRY(check_chunk_in_place(from.source, from.index, chunk, place));
    } else {
      // The arena's, which this call was given to write to.
      CRIA_TRY(load_chunk(from.source, from.index, chunk, &scratch, const_cast<uint8_t*>(place)));
    }
    CRIA_TRY(from.progress->add(chunk.raw_bytes, task));
  }
  return Status::kOk;
}

Status load_weights(const WeightLoading& from, const WeightPlaces& places, const Weights& weights) {
  Status results[CRIA_MAX_THREADS] = {};
  parallel_for(from.threads, Even{from.index.n_chunks}, [&](size_t begin, size_t end, size_t task) {
    results[task] = load_chunks(from, places, {begin, end}, task, weights);
  });
  for (const Status status : results) CRIA_TRY(status);
  return Status::kOk;
}

// Where a tensor is used; null when the backend packs it. The first chunk says where a mapped one
// begins: the chunks of a stored tensor follow each other.
Status find_place(const WeightLoading& from, const ListedTensor& listed, WeightPlaces* places,
                  const uint8_t** place) {
  *place = nullptr;
  if (!is_kept(listed.spec, places->kept)) return Status::kOk;
  const uint64_t n_bytes = tensor_bytes(listed.spec);
  // A directory or a table that has changed may list more than was planned for.
  if (places->mapped != nullptr && is_stored(from.index.config, listed.spec)) {
    uint64_t offset = 0;
    CRIA_TRY(offset_of_chunk(from.source, from.index, listed.first_chunk, &offset));
    if (offset > places->n_mapped_bytes || n_bytes > places->n_mapped_bytes - offset) {
      return Status::kCorrupt;
    }
    *place = places->mapped + offset;
    return Status::kOk;
  }
  if (aligned(n_bytes) > places->n_bytes) return Status::kCorrupt;
  *place = places->memory;
  places->memory += aligned(n_bytes);
  places->n_bytes -= aligned(n_bytes);
  return Status::kOk;
}

// Points the decoder's view at every tensor.
Status bind_weights(const WeightLoading& from, WeightPlaces places, Weights* weights) {
  for (uint32_t i = 0; i < weights->tensors.size(); ++i) {
    ListedTensor listed;
    CRIA_TRY(read_listed_tensor(from.source, from.index, i, &listed));
    const uint8_t* place = nullptr;
    CRIA_TRY(find_place(from, listed, &places, &place));
    bind_tensor(listed.spec, i, place, weights);
  }
  const Tensor* embedding = weights->find(format::TensorRole::kEmbedding);
  if (has_flag(from.index.config, format::kTiedEmbedding)) *weights->lm_head = *embedding;
  return Status::kOk;
}

// Numbers the tensors of rows that are there, from *n on.
void number_roles(const format::ModelScalars& m, const format::LayerKind& kind,
                  std::span<const TensorRow> rows, size_t* n, RolePlaces* roles) {
  for (const TensorRow& row : rows) {
    if (row.n_matrices(m, kind) == 0) continue;
    roles->place[static_cast<size_t>(row.role)] = static_cast<uint8_t>(++*n);
  }
}

// Fills what a layer says of itself; of_kind has, of each kind, how many layers came before.
Layer make_layer(const Config& config, size_t index, const RolePlaces* roles, Tensor* tensors,
                 const uint32_t* of_kind) {
  const uint8_t kind = config.layers[index];
  Layer layer = {};
  layer.kind = &config.kinds[kind];
  layer.roles = &roles[kind];
  layer.tensors = tensors;
  const bool shares = layer.kind->shared_with != format::kNoKind;
  layer.state_kind = shares ? layer.kind->shared_with : kind;
  layer.state_layer = shares ? of_kind[layer.state_kind] - 1 : of_kind[kind];
  return layer;
}

}  // namespace

void lay_out_weights(const Config& config, Carver* carver, Weights* weights) {
  const format::ModelScalars& m = *config.model;
  const size_t n_kinds = config.kinds.size();
  // Objects of the sizes that the plan counts.
  auto* const roles = carver->take<RolePlaces>(n_kinds + 1);
  auto* const layers = carver->take<Layer>(config.layers.size());
  const uint32_t n_tensors = tensor_count(config);
  auto* const tensors = carver->take<Tensor>(n_tensors + 1);

  size_t n_of_kind[format::kMaxKinds + 1] = {};  // the last one's is that outside the layers
  for (size_t i = 0; i <= n_kinds; ++i) {
    roles[i] = {};
    const bool is_kind = i < n_kinds;
    const format::LayerKind& kind = is_kind ? config.kinds[i] : kOutsideLayers;
    for (size_t part = 0; part < (is_kind ? kLayerParts : kModelParts); ++part) {
      const auto rows = is_kind ? layer_part(kind, part) : model_part(part);
      number_roles(m, kind, rows, &n_of_kind[i], &roles[i]);
      if (!is_kind && part == 0) weights->n_before = static_cast<uint32_t>(n_of_kind[i]);
    }
  }
  weights->n_in_layers = n_tensors - static_cast<uint32_t>(n_of_kind[n_kinds]);

  uint32_t of_kind[format::kMaxKinds] = {};
  Tensor* next = tensors + weights->n_before;
  for (size_t i = 0; i < config.layers.size(); ++i) {
    layers[i] = make_layer(config, i, roles, next, of_kind);
    next += n_of_kind[config.layers[i]];
    ++of_kind[config.layers[i]];
  }
  for (uint32_t i = 0; i <= n_tensors; ++i) tensors[i] = {};
  weights->roles = &roles[n_kinds];
  weights->layers = {layers, config.layers.size()};
  weights->tensors = {tensors, n_tensors};
  // A tied one stands after all others.
  weights->lm_head = &tensors[n_tensors - (has_flag(config, format::kTiedEmbedding) ? 0 : 1)];
}

Status open_weights(const WeightLoading& from, bool skip_checksums, Arena* arena,
                    Weights* weights) {
  WeightPlaces places = {};
  places.kept =
      from.planned_for.backend_keeps_tile16 ? KeptTensors::kAll : KeptTensors::kVectorsAndTables;
  places.skip_checksums = skip_checksums;
  const Config& config = from.index.config;
  const bool some_stay = kept_tensor_bytes(config, places.kept, true).in_place != 0;
  if (from.planned_for.mapped && some_stay) {
    places.n_mapped_bytes = from.index.data.bytes;
    places.mapped = map_source(from.source, from.index.data.offset, places.n_mapped_bytes);
    if (places.mapped == nullptr) return Status::kReadFailed;
    if (!is_aligned(places.mapped)) return Status::kMisaligned;
  }
  places.n_bytes = from.memory.model.weights;
  CRIA_TRY(take(arena, places.n_bytes, &places.memory));
  CRIA_TRY(bind_weights(from, places, weights));
  // Nothing of a stored file that is mapped needs to be looked at.
  if (places.mapped != nullptr && skip_checksums && is_stored(config)) return Status::kOk;
  return load_weights(from, places, *weights);
}

}  // namespace cria
