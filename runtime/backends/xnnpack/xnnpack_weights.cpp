// How matrices are cut into slices, and what memory that takes.
#include "runtime/backends/xnnpack/xnnpack_weights.h"

#include <algorithm>

#include "quant/format/align.h"
#include "quant/model/model_layout.h"
#include "runtime/backends/xnnpack/xnnpack_operator.h"
#include "runtime/backends/xnnpack/xnnpack_slicing.h"

namespace cria::xnnpack {
namespace {

// Of the tensors of a file; the output matrix comes besides them.
bool is_packed(const TensorSpec& spec) {
  return spec.is_matrix() && spec.role != format::TensorRole::kLmHead &&
         !is_kept(spec, KeptTensors::kVectorsAndTables);
}

// Calls visit with the shape of each kind of matrix that is multiplied by, how many a stack has,
// and how many stacks a model has; visit returns a Status.
template <typename Visit>
Status visit_shapes(const Config& config, const Visit& visit) {
  CRIA_TRY(visit(model_matrix(config, format::TensorRole::kLmHead), 1, 1));
  TensorKinds kinds(config);
  for (TensorKind kind = {}; kinds.next(&kind);) {
    if (!is_packed(kind.spec)) continue;
    CRIA_TRY(visit(kind.spec.shape, kind.spec.n_matrices, kind.n));
  }
  return Status::kOk;
}

}  // namespace

Slicing slice_matrix(const MatrixShape& shape) {
  // Row-major bytes of a slice: an eighth of the matrix for threads to share, but no operator
  // object of 2 KB for next to nothing, and little enough to lie in a cache while it is packed.
  constexpr uint64_t kSlicesWanted = 8;
  constexpr uint64_t kLeastBytes = 64 * 1024;
  constexpr uint64_t kMostBytes = 512 * 1024;
  // Kernels compute up to 64 rows side by side and pad to that.
  constexpr uint64_t kRowsMultiple = 64;
  const uint64_t row_bytes = source_row_bytes(shape);
  const uint64_t wanted =
      std::clamp(shape.rows * row_bytes / kSlicesWanted, kLeastBytes, kMostBytes) / row_bytes;
  const uint64_t multiple = wanted < kRowsMultiple ? kTileRows : kRowsMultiple;
  const uint64_t n_rows = std::max(wanted / multiple * multiple, uint64_t{kTileRows});
  Slicing slicing = {};
  slicing.rows = static_cast<uint32_t>(std::min<uint64_t>(n_rows, shape.rows));
  slicing.n_slices = (shape.rows - 1) / slicing.rows + 1;
  slicing.last_rows = shape.rows - (slicing.n_slices - 1) * slicing.rows;
  return slicing;
}

Status measure_matrix(const MatrixShape& shape, MatrixBytes* n_bytes) {
  // Sums of K products of int8 stay within 32 bits up to here.
  constexpr size_t kMostIntegerCols = size_t{1} << 16;
  if (is_integer(shape) && padded_cols(shape) > kMostIntegerCols) return Status::kUnsupported;
  const Slicing slicing = slice_matrix(shape);
  SliceBytes full = {};
  SliceBytes last = {};
  CRIA_TRY(measure_slice(shape, slicing.rows, &full));
  CRIA_TRY(measure_slice(shape, slicing.last_rows, &last));
  const uint64_t n_full = slicing.n_slices - 1;
  n_bytes->packed = aligned(sizeof(PackedMatrix)) + aligned(slicing.n_slices * sizeof(void*)) +
                    n_full * full.packed + last.packed;
  n_bytes->objects = n_full * full.object + last.object;
  return Status::kOk;
}

Status packed_bytes(const Config& config, PackedBytes* n_bytes) {
  CRIA_TRY(initialize());
  *n_bytes = {};
  uint64_t n_slices = 0;
  const auto add = [&](const MatrixShape& shape, uint64_t n_of_stack, uint64_t n_stacks) {
    const uint64_t n_matrices = n_of_stack * n_stacks;
    MatrixBytes matrix = {};
    const Status status = measure_matrix(shape, &matrix);
    n_bytes->model += n_matrices * matrix.packed;
    n_bytes->workspace += n_matrices * matrix.objects;
    n_slices += n_matrices * slice_matrix(shape).n_slices;
    return status;
  };
  CRIA_TRY(visit_shapes(config, add));
  n_bytes->workspace += aligned(n_slices * sizeof(SliceOperator));
  return Status::kOk;
}

LoadLayout load_layout(const Config& config) {
  LoadLayout most = {};
  const auto widen = [](uint64_t* part, uint64_t n) { *part = std::max(*part, aligned(n)); };
  static_cast<void>(
      visit_shapes(config, [&](const MatrixShape& shape, uint64_t n_of_stack, uint64_t) {
        const uint64_t rows = slice_matrix(shape).rows;
        // A chunk may hold several matrices of a stack.
        const uint64_t most_chunk = format::kChunkRawBytes;
        widen(&most.raw_codes, std::min(n_of_stack * code_plane_bytes(shape), most_chunk));
        widen(&most.raw_scales, std::min(n_of_stack * scale_plane_bytes(shape), most_chunk));
        widen(&most.tile_codes, tile_code_bytes(shape));
        widen(&most.tile_scales, tile_scale_bytes(shape));
        widen(&most.source_codes, rows * source_row_bytes(shape));
        // A tile's share of the scales is that of 16 rows, row-major too.
        widen(&most.source_scales,
              round_up(rows, uint64_t{kTileRows}) / kTileRows * tile_scale_bytes(shape));
        return Status::kOk;
      }));
  most.object = kMostObjectBytes;
  most.total = most.object + most.raw_codes + most.raw_scales + most.tile_codes + most.tile_scales +
               most.source_codes + most.source_scales;
  return most;
}

}  // namespace cria::xnnpack
