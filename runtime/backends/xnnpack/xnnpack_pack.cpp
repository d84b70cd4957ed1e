// Packing: from the file's planes, tile by tile and slice by slice, to operators.
#include <atomic>

#include "quant/model_layout.h"
#include "runtime/backends/xnnpack/xnnpack_operator.h"
#include "runtime/backends/xnnpack/xnnpack_slicing.h"
#include "runtime/backends/xnnpack/xnnpack_unpack.h"
#include "runtime/backends/xnnpack/xnnpack_weights.h"
#include "runtime/base/assert.h"
#include "runtime/base/parallel.h"
#include "runtime/loading/chunk_loader.h"

namespace cria::xnnpack {
namespace {

constexpr uint32_t kMatricesPerLayer = 7;

// LoadLayout as pointers, for one thread.
struct LoadScratch {
  uint8_t* raw_codes;
  uint8_t* raw_scales;
  uint8_t* tile_codes;
  uint8_t* tile_scales;
  uint8_t* source_codes;
  uint8_t* source_scales;
  ChunkScratch chunk;
};

LoadScratch load_scratch(const cria_session& s, size_t task) {
  const LoadLayout layout = load_layout(s.model.config);
  uint8_t* at = s.step + task * layout.total;
  const auto next = [&at](uint64_t n_bytes) {
    uint8_t* part = at;
    at += n_bytes;
    return part;
  };
  LoadScratch scratch = {};
  scratch.raw_codes = next(layout.raw_codes);
  scratch.raw_scales = next(layout.raw_scales);
  scratch.tile_codes = next(layout.tile_codes);
  scratch.tile_scales = next(layout.tile_scales);
  scratch.source_codes = next(layout.source_codes);
  scratch.source_scales = next(layout.source_scales);
  // Decompressors lie behind the load bytes of all threads; stored chunks never touch them.
  scratch.chunk.decompressor =
      s.step + s.plan_input.n_threads * layout.total + task * (kDecompressorBytes + kStagingBytes);
  scratch.chunk.staging = scratch.chunk.decompressor + kDecompressorBytes;
  return scratch;
}

// Matrix i of the order they are packed in. The largest comes first, so that no thread ends up
// alone with it.
Matrix* packed_matrix(Model* model, uint32_t i) {
  if (i == 0) return &model->lm_head;
  Layer* layer = &model->layers[(i - 1) / kMatricesPerLayer];
  Matrix* const matrices[kMatricesPerLayer] = {&layer->q,    &layer->k,  &layer->v,   &layer->o,
                                               &layer->gate, &layer->up, &layer->down};
  return matrices[(i - 1) % kMatricesPerLayer];
}

// The planes of one matrix, read from their beginnings.
struct PlaneReaders {
  PlaneReaders(const cria_session& s, const Matrix& matrix, const LoadScratch& scratch)
      : codes(s.source, s.index, matrix.tensor, Plane::kCodes, scratch.chunk, scratch.raw_codes),
        scales(s.source, s.index, matrix.tensor, Plane::kScales, scratch.chunk,
               scratch.raw_scales) {}
  PlaneReader codes;
  PlaneReader scales;
};

// Makes the row-major source of the next n_rows rows.
Status read_slice(const MatrixShape& shape, uint32_t n_rows, const LoadScratch& scratch,
                  PlaneReaders* readers) {
  const size_t row_bytes = source_row_bytes(shape);
  const size_t scale_bytes = static_cast<size_t>(tile_scale_bytes(shape));
  for (uint32_t row = 0; row < n_rows; row += kTileRows) {
    CRIA_TRY(readers->codes.read(scratch.tile_codes, tile_code_bytes(shape)));
    CRIA_TRY(readers->scales.read(scratch.tile_scales, scale_bytes));
    const size_t n = n_rows - row < kTileRows ? n_rows - row : kTileRows;
    uint8_t* codes = scratch.source_codes + row * row_bytes;
    uint8_t* scales = scratch.source_scales + row / kTileRows * scale_bytes;
    switch (shape.number_format) {
      case format::NumberFormat::kInt4:
        unpack_int4_tile(shape, scratch.tile_codes, scratch.tile_scales, n, codes,
                         reinterpret_cast<uint16_t*>(scales));
        break;
      case format::NumberFormat::kInt8:
        unpack_int8_tile(shape, scratch.tile_codes, scratch.tile_scales, n,
                         reinterpret_cast<int8_t*>(codes), reinterpret_cast<float*>(scales));
        break;
      default:
        unpack_float_tile(shape, scratch.tile_codes, n, reinterpret_cast<float*>(codes));
        break;
    }
  }
  return Status::kOk;
}

// Packs one matrix into memory [n_bytes].
Status pack_matrix(const cria_session& s, const LoadScratch& scratch, Matrix* matrix,
                   uint8_t* memory, uint64_t n_bytes) {
  const MatrixShape& shape = matrix->shape;
  const Slicing slicing = slice_matrix(shape);
  Region region = {.base = memory, .capacity = n_bytes, .n_allowed = 0, .used = 0, .n_asked = 0};
  const auto take = [&region](uint64_t n) {
    uint8_t* block = region.base + region.used;
    region.used += round_up(n, uint64_t{format::kAlignment});
    return block;
  };
  auto* packed = reinterpret_cast<PackedMatrix*>(take(sizeof(PackedMatrix)));
  packed->slices = reinterpret_cast<Slice*>(take(slicing.n_slices * sizeof(Slice)));
  packed->n_slices = slicing.n_slices;
  matrix->packed = packed;
  PlaneReaders readers(s, *matrix, scratch);
  const SliceSource source = {.codes = scratch.source_codes, .scales = scratch.source_scales};
  for (uint32_t i = 0; i < slicing.n_slices; ++i) {
    const uint32_t n_rows = i + 1 < slicing.n_slices ? slicing.rows : slicing.last_rows;
    Slice* slice = &packed->slices[i];
    *slice = {.op = nullptr, .first_tile = i * (slicing.rows / uint32_t{kTileRows}), .n_rows = 0};
    CRIA_TRY(read_slice(shape, n_rows, scratch, &readers));
    CRIA_TRY(create_operator(shape, n_rows, source, &region, &slice->op));
  }
  // The plan was made by trial; a matrix that takes anything else would mean it cannot be trusted.
  return region.used == n_bytes ? Status::kOk : Status::kBackendFailed;
}

}  // namespace

Status pack_model(cria_session* session, uint8_t* memory, uint64_t n_bytes) {
  const cria_session& s = *session;
  const uint32_t n_matrices = 1 + s.model.config.n_layers * kMatricesPerLayer;
  // Places follow from the order alone, whichever thread packs what: lm_head, then equal layers.
  uint64_t role_bytes[1 + kMatricesPerLayer];
  uint64_t role_begin[1 + kMatricesPerLayer];
  uint64_t end = 0;
  for (uint32_t i = 0; i <= kMatricesPerLayer; ++i) {
    CRIA_TRY(measure_matrix(packed_matrix(&session->model, i)->shape, &role_bytes[i]));
    role_begin[i] = end;
    end += role_bytes[i];
  }
  const uint64_t layer_bytes = end - role_begin[1];
  if (end + layer_bytes * (s.model.config.n_layers - 1) != n_bytes) return Status::kBackendFailed;

  std::atomic<uint32_t> next_matrix = 0;
  std::atomic<Status> failure = Status::kOk;
  parallel_ranges(s, s.plan_input.n_threads, [&](size_t /*begin*/, size_t /*end*/, size_t task) {
    const LoadScratch scratch = load_scratch(s, task);
    for (;;) {
      const uint32_t i = next_matrix.fetch_add(1);
      if (i >= n_matrices || failure.load() != Status::kOk) return;
      const uint32_t role = i == 0 ? 0 : (i - 1) % kMatricesPerLayer + 1;
      const uint64_t layer = i == 0 ? 0 : (i - 1) / kMatricesPerLayer;
      const Status status =
          pack_matrix(s, scratch, packed_matrix(&session->model, i),
                      memory + role_begin[role] + layer * layer_bytes, role_bytes[role]);
      if (status != Status::kOk) failure.store(status);
    }
  });
  return failure.load();
}

}  // namespace cria::xnnpack
