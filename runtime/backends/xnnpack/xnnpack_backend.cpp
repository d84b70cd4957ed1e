// The XNNPACK backend: weights packed by XNNPACK into the arena, activations quantized here, one
// symmetric scale a row. Bits differ between CPUs; docs/numerics.md has what holds.
#include <atomic>

#include "runtime/backends/xnnpack/xnnpack_operator.h"
#include "runtime/backends/xnnpack/xnnpack_weights.h"

namespace cria {
namespace {

using xnnpack::kRepeatedParams;
using xnnpack::OperatorInput;
using xnnpack::PackedMatrix;
using xnnpack::SliceOperator;

Status xnnpack_needs(const Config& config, uint32_t n_threads, uint32_t prefill_chunk,
                     BackendNeeds* needs) {
  *needs = {};
  // XNNPACK refuses a scale that is not positive when the matrix is packed; nothing loads so far.
  if (has_flag(config, format::kSignedScales)) return Status::kUnsupported;
  xnnpack::PackedBytes packed = {};
  CRIA_TRY(xnnpack::packed_bytes(config, &packed));
  needs->model_bytes = packed.model;
  needs->workspace_bytes = packed.workspace;
  const ProductInputs inputs = most_inputs(config, prefill_chunk);
  needs->step_bytes =
      (inputs.rows + inputs.segments * kRepeatedParams) * sizeof(xnn_quantization_params);
  needs->load_bytes = n_threads * xnnpack::load_layout(config).total;
  return Status::kOk;
}

// The backend's block is the last of the step's scratch, so what the kernels over-read of any
// input that lies there stays within the arena.
static_assert(kRepeatedParams * sizeof(xnn_quantization_params) >= XNN_EXTRA_BYTES);

// Whether two matrices take the same input: floats as they are, or int8 padded alike.
bool share_input(const MatrixShape& a, const MatrixShape& b) {
  return xnnpack::is_integer(a) == xnnpack::is_integer(b) && padded_cols(a) == padded_cols(b);
}

// Quantizes the segments' rows into the step's scratch; after the parameters of a segment the last
// row's are repeated.
void quantize_rows(const LinearTools& tools, const float* x, std::span<const Segment> segments,
                   const MatrixShape& shape, xnn_quantization_params* params) {
  const size_t padded = padded_cols(shape);
  parallel_for(
      tools.threads, Even{rows_of(segments)}, [&](size_t begin, size_t end, size_t /*task*/) {
        size_t segment = 0;
        for (size_t i = begin; i < end; ++i) {
          while (i >= size_t{segments[segment].first_row} + segments[segment].n_rows) ++segment;
          xnn_quantization_params* const row = params + segment * kRepeatedParams + i;
          *row = {.zero_point = 0, .scale = 0.0f};
          tools.kernels.quantize_row(x + i * shape.cols, shape.cols, padded, padded,
                                     tools.scratch.codes + i * padded, &row->scale, nullptr);
        }
      });
  for (const Segment& segment : segments) {
    xnn_quantization_params* const behind = params + segment.first_row + segment.n_rows;
    for (size_t i = 0; i < kRepeatedParams; ++i) behind[i] = behind[-1];
    params += kRepeatedParams;
  }
}

// Runs the slices of one matrix that begin in tiles [from, to).
Status run_slices(const LinearTools& tools, const MatrixShape& shape, const PackedMatrix& packed,
                  const OperatorInput& input, size_t from, size_t to, float* y) {
  auto* operators = static_cast<SliceOperator*>(tools.workspace) + packed.first_slice;
  for (size_t i = (from + packed.slice_tiles - 1) / packed.slice_tiles; i < packed.n_slices; ++i) {
    const size_t first_tile = i * packed.slice_tiles;
    if (first_tile >= to) break;
    SliceOperator& slice = operators[i];
    if (slice.n_rows != input.n_rows) {
      slice.n_rows = 0;
      CRIA_TRY(xnnpack::reshape_operator(shape, slice.op, input.n_rows));
      slice.n_rows = static_cast<uint32_t>(input.n_rows);
    }
    CRIA_TRY(xnnpack::run_operator(shape, slice.op, input, y + first_tile * kTileRows));
  }
  return Status::kOk;
}

// Runs all slices of matrices that share an input, split over the threads by rows.
Status multiply(const LinearTools& tools, const float* x, std::span<const Segment> segments,
                const xnn_quantization_params* params, std::span<const LinearCall> calls) {
  size_t n_tiles = 0;
  for (const LinearCall& call : calls) {
    n_tiles += tile_count(call.tensor->shape.rows) * segments.size();
  }
  std::atomic<Status> failure = Status::kOk;
  parallel_for(tools.threads, Even{n_tiles}, [&](size_t begin, size_t end, size_t /*task*/) {
    size_t first = 0;
    for (const LinearCall& call : calls) {
      const MatrixShape& shape = call.tensor->shape;
      for (size_t i = 0; i < segments.size(); ++i, first += tile_count(shape.rows)) {
        const size_t row = segments[i].first_row;
        const OperatorInput input = {.x = x + row * shape.cols,
                                     .codes = tools.scratch.codes + row * padded_cols(shape),
                                     .params = params + row + i * kRepeatedParams,
                                     .n_rows = segments[i].n_rows};
        const size_t from = begin > first ? begin - first : 0;
        const size_t to = end > first ? end - first : 0;
        const Status status =
            run_slices(tools, shape, xnnpack::packed_matrix(*call.tensor, segments[i].index), input,
                       from, to, call.y + row * shape.rows);
        if (status != Status::kOk) failure.store(status);
      }
    }
  });
  return failure.load();
}

Status xnnpack_linear(const LinearTools& tools, const float* x, std::span<const Segment> segments,
                      std::span<const LinearCall> calls) {
  if (rows_of(segments) == 0) return Status::kOk;
  auto* params = reinterpret_cast<xnn_quantization_params*>(tools.scratch.backend);
  while (!calls.empty()) {
    const MatrixShape& shape = calls.front().tensor->shape;
    size_t n = 1;
    while (n < calls.size() && share_input(shape, calls[n].tensor->shape)) ++n;
    if (xnnpack::is_integer(shape)) quantize_rows(tools, x, segments, shape, params);
    CRIA_TRY(multiply(tools, x, segments, params, calls.first(n)));
    calls = calls.subspan(n);
  }
  return Status::kOk;
}

}  // namespace

const Backend kXnnpackBackend = {"xnnpack", xnnpack_needs, xnnpack::pack_model,
                                 xnnpack::make_operators, xnnpack_linear};

}  // namespace cria
