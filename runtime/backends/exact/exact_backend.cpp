// The backend whose bits are the same everywhere: our kernels on the file's own layout.
#include <algorithm>

#include "runtime/backends/backend.h"
#include "runtime/base/features.h"

namespace cria {
namespace {

Status exact_needs(const Config& /*config*/, uint32_t /*n_threads*/, uint32_t /*prefill_chunk*/,
                   BackendNeeds* needs) {
  *needs = {};
  needs->keeps_tile16 = true;
  return Status::kOk;
}

Status exact_load(const PackSource& /*from*/, Weights* /*weights*/, uint8_t* /*memory*/,
                  uint64_t /*n_bytes*/) {
  return Status::kOk;
}

Status exact_start(const Config& /*config*/, const Weights& /*weights*/, uint8_t* /*memory*/,
                   uint64_t /*n_bytes*/) {
  return Status::kOk;
}

// Quantizes rows of x once for all the matrices that share them.
void quantize_rows(const LinearTools& tools, const float* x, size_t n_rows, size_t cols,
                   size_t padded) {
  const LinearScratch& to = tools.scratch;
  const size_t n_groups = padded / kActivationGroup;
  parallel_for(tools.threads, Even{n_rows}, [&](size_t begin, size_t end, size_t /*task*/) {
    for (size_t i = begin; i < end; ++i) {
      tools.kernels.quantize_row(x + i * cols, cols, padded, kActivationGroup,
                                 to.codes + i * padded, to.scales + i * n_groups,
                                 to.sums + i * n_groups);
    }
  });
}

// The product of tiles [first_tile, last_tile) of a segment's matrix and the segment's rows.
void multiply(const LinearTools& tools, const LinearCall& call, const Segment& segment,
              const float* x, size_t first_tile, size_t last_tile) {
  const Tensor& t = *call.tensor;
  const MatrixShape& shape = t.shape;
  const uint8_t* const codes = t.codes_of(segment.index);
  const Product& product = tools.kernels.products.of[place_of(shape.number_format)];
  const size_t first = segment.first_row;
  float* const y = call.y + first * shape.rows;
  if (is_integer(shape.number_format)) {
    const size_t padded = padded_cols(shape);
    const size_t first_group = first * (padded / kActivationGroup);
    const QuantizedRows rows = {tools.scratch.codes + first * padded,
                                tools.scratch.scales + first_group,
                                tools.scratch.sums + first_group, segment.n_rows};
    product.codes(shape, codes, t.scales_of(segment.index), first_tile, last_tile, rows, y,
                  shape.rows);
  } else {
    product.floats(shape, codes, first_tile, last_tile, x + first * shape.cols, segment.n_rows, y,
                   shape.rows);
  }
}

// Threads share out a matrix as they go: a core that is slower, or busy elsewhere, holds up the
// others by no more than a part. So many rows are bound by arithmetic, and any part will do; fewer
// wait for memory, which likes one long stream a thread best.
constexpr size_t kManyRows = 16;
constexpr size_t kPartsOfTask = 8;
constexpr size_t kPartsOfStretch = 16;
constexpr size_t kTilesOfTaskForPairs = 8;            // one more is an eighth of a share at most
constexpr size_t kLeastPartBytes = size_t{64} << 10;  // smaller ones cost more than they save

// Without stacks there is one segment, which the compiler is to know.
size_t n_of(std::span<const Segment> segments) { return kHasStacks ? segments.size() : 1; }

// Calls that want the same input: quantized alike, or all as floats.
void multiply_run(const LinearTools& tools, const float* x, std::span<const Segment> segments,
                  std::span<const LinearCall> calls) {
  size_t n_tiles = 0;
  for (const LinearCall& call : calls) {
    n_tiles += tile_count(call.tensor->shape.rows) * n_of(segments);
  }
  const size_t n_rows = rows_of(segments);
  const MatrixShape& shape = calls.front().tensor->shape;
  if (is_integer(shape.number_format)) {
    quantize_rows(tools, x, n_rows, shape.cols, padded_cols(shape));
  }
  // One split over the tiles of all matrices: the threads meet once, not once a matrix.
  const auto multiply_tiles = [&](size_t begin, size_t end, size_t /*task*/) {
    size_t first = 0;
    for (const LinearCall& call : calls) {
      const size_t n = tile_count(call.tensor->shape.rows);
      for (const Segment& segment : segments.first(n_of(segments))) {
        const size_t from = begin > first ? begin - first : 0;
        const size_t to = end > first ? (end - first < n ? end - first : n) : 0;
        if (from < to) multiply(tools, call, segment, x, from, to);
        first += n;
      }
    }
  };
  if constexpr (!kSharesAsItGoes) return parallel_for(tools.threads, Even{n_tiles}, multiply_tiles);
  const size_t n_tasks = tools.threads.n_tasks;
  const size_t rows_together = (n_rows + n_of(segments) - 1) / n_of(segments);  // on average
  if (rows_together < kManyRows) {
    uint64_t n_bytes = 0;
    for (const LinearCall& call : calls) {
      n_bytes += matrix_bytes(call.tensor->shape) * n_of(segments);
    }
    const auto n_parts = static_cast<size_t>(
        std::clamp<uint64_t>(n_bytes / n_tasks / kLeastPartBytes, 1, kPartsOfStretch));
    // Where no kernel wants two tiles, shares are equal to the tile; so are those of a small
    // matrix, and where a tile more is much of a share.
    const size_t rows_of_single_tiles =
        is_integer(shape.number_format) ? kIntegerRowsOfSingleTiles : kFloatRowsOfSingleTiles;
    const bool in_pairs = rows_together > rows_of_single_tiles && n_parts > 1 &&
                          n_tiles >= kTilesOfTaskForPairs * n_tasks;
    const size_t unit = in_pairs ? kMostTilesTogether : 1;
    const size_t n_units = (n_tiles + unit - 1) / unit;
    const auto multiply_units = [&](size_t begin, size_t end, size_t task) {
      multiply_tiles(begin * unit, end * unit, task);  // which ends with the last matrix
    };
    return parallel_for(tools.threads, InStretches{n_units, n_parts}, multiply_units);
  }
  const size_t n_parts = n_tasks * kPartsOfTask;
  parallel_for(tools.threads,
               InParts{n_tiles, round_up((n_tiles + n_parts - 1) / n_parts, kMostTilesTogether)},
               multiply_tiles);
}

bool share_input(const Tensor& a, const Tensor& b) {
  const bool wants_codes = is_integer(a.shape.number_format);
  return wants_codes == is_integer(b.shape.number_format) &&
         (!wants_codes || padded_cols(a.shape) == padded_cols(b.shape));
}

Status exact_linear(const LinearTools& tools, const float* x, std::span<const Segment> segments,
                    std::span<const LinearCall> calls) {
  if (segments.empty()) return Status::kOk;
  for (size_t begin = 0; begin < calls.size();) {
    size_t end = begin + 1;
    while (end < calls.size() && share_input(*calls[begin].tensor, *calls[end].tensor)) ++end;
    multiply_run(tools, x, segments, calls.subspan(begin, end - begin));
    begin = end;
  }
  return Status::kOk;
}

}  // namespace

const Backend kExactBackend = {"exact", exact_needs, exact_load, exact_start, exact_linear};

}  // namespace cria
