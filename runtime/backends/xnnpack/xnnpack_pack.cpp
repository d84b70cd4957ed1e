// Packing: from the file's planes, tile by tile and slice by slice, to operators.
#include <atomic>
#include <iterator>

#include "quant/model/model_layout.h"
#include "runtime/backends/xnnpack/xnnpack_operator.h"
#include "runtime/backends/xnnpack/xnnpack_slicing.h"
#include "runtime/backends/xnnpack/xnnpack_unpack.h"
#include "runtime/backends/xnnpack/xnnpack_weights.h"
#include "runtime/base/parallel.h"
#include "runtime/loading/chunk_loader.h"

namespace cria::xnnpack {
namespace {

// LoadLayout as pointers, for one thread.
struct LoadScratch {
  uint8_t* raw_codes;
  uint8_t* raw_scales;
  uint8_t* tile_codes;
  uint8_t* tile_scales;
  uint8_t* source_codes;
  uint8_t* source_scales;
  uint8_t* object;
  ChunkScratch chunk;
};

LoadScratch load_scratch(const PackSource& from, size_t task) {
  const LoadLayout layout = load_layout(from.index.config);
  uint8_t* at = from.scratch + task * layout.total;
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
  scratch.object = next(layout.object);
  // Stored chunks never touch it.
  scratch.chunk = chunk_scratch(from.chunk_scratch, task);
  return scratch;
}

// The planes of one tensor, read from their beginnings.
struct PlaneReaders {
  PlaneReaders(const PackSource& from, const Tensor& tensor, const LoadScratch& scratch)
      : codes(from.source, from.index, tensor.number, tensor.shape, Plane::kCodes, scratch.chunk,
              scratch.raw_codes),
        scales(from.source, from.index, tensor.number, tensor.shape, Plane::kScales, scratch.chunk,
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
      case format::NumberFormat::kInt4Nl:
      case format::NumberFormat::kInt8G32:
      case format::NumberFormat::kBit1:
      case format::NumberFormat::kBit2:
        return Status::kUnsupported;
      case format::NumberFormat::kF32:
      case format::NumberFormat::kF16:
      case format::NumberFormat::kBf16:
        unpack_float_tile(shape, scratch.tile_codes, n, reinterpret_cast<float*>(codes));
        break;
    }
  }
  return Status::kOk;
}

// Packs the next matrix of a tensor to where it was placed.
Status pack_matrix(const MatrixShape& shape, const LoadScratch& scratch, PlaneReaders* readers,
                   PackedMatrix* packed) {
  const Slicing slicing = slice_matrix(shape);
  const uint64_t n_bytes = packed->n_bytes;
  Region region = {.base = reinterpret_cast<uint8_t*>(packed),
                   .capacity = n_bytes,
                   .n_allowed = 2,
                   .used = 0,
                   .n_asked = 0};
  const uint8_t* record = take(&region, sizeof(PackedMatrix));
  auto* slices = reinterpret_cast<const void**>(take(&region, slicing.n_slices * sizeof(void*)));
  if (record == nullptr || slices == nullptr) return Status::kBackendFailed;
  packed->slices = slices;
  const SliceSource source = {.codes = scratch.source_codes, .scales = scratch.source_scales};
  for (uint32_t i = 0; i < slicing.n_slices; ++i) {
    const uint32_t n_rows = rows_of_slice(slicing, i);
    CRIA_TRY(read_slice(shape, n_rows, scratch, readers));
    CRIA_TRY(pack_slice(shape, n_rows, source, scratch.object, &region, &slices[i]));
  }
  // The plan was made by trial; a matrix that takes anything else would mean it cannot be trusted.
  return region.used == n_bytes ? Status::kOk : Status::kBackendFailed;
}

Status pack_tensor(const PackSource& from, const LoadScratch& scratch, const Tensor& tensor) {
  PlaneReaders readers(from, tensor, scratch);
  for (uint32_t i = 0; i < tensor.n_matrices; ++i) {
    auto* packed = const_cast<PackedMatrix*>(&packed_matrix(tensor, i));
    CRIA_TRY(pack_matrix(tensor.shape, scratch, &readers, packed));
  }
  return Status::kOk;
}

// Tensors in the order of packing: lm_head, which is the largest and so leaves no thread alone with
// it, then those of the file.
size_t count_tensors(const Weights& weights) { return 1 + weights.tensors.size(); }

const Tensor& tensor_at(const Weights& weights, size_t i) {
  return i == 0 ? *weights.lm_head : weights.tensors[i - 1];
}

// All matrices that are multiplied by: lm_head, and what the file's layout is not kept of.
bool is_to_pack(const Weights& weights, size_t i) {
  const Tensor& tensor = tensor_at(weights, i);
  const bool is_packed = tensor.form != TensorForm::kVector && tensor.codes == nullptr;
  return i == 0 || (is_packed && &tensor != weights.lm_head);
}

// What matrices of some shapes take: measuring is a trial, and all layers' matrices are of a few
// kinds.
class Measured {
 public:
  [[nodiscard]] Status find(const MatrixShape& shape, MatrixBytes* bytes) {
    for (size_t i = 0; i < n_; ++i) {
      if (!(shapes_[i] == shape)) continue;
      *bytes = bytes_[i];
      return Status::kOk;
    }
    CRIA_TRY(measure_matrix(shape, bytes));
    if (n_ == std::size(shapes_)) return Status::kOk;
    shapes_[n_] = shape;
    bytes_[n_++] = *bytes;
    return Status::kOk;
  }

 private:
  MatrixShape shapes_[64] = {};
  MatrixBytes bytes_[64] = {};
  size_t n_ = 0;
};

// Gives every matrix its place in memory [n_bytes]. Places follow only from the order, whichever
// thread packs what.
Status place_matrices(Weights* weights, uint8_t* memory, uint64_t n_bytes) {
  Measured measured;
  uint64_t end = 0;
  uint32_t n_slices = 0;
  for (size_t i = 0; i < count_tensors(*weights); ++i) {
    if (!is_to_pack(*weights, i)) continue;
    auto& tensor = const_cast<Tensor&>(tensor_at(*weights, i));
    const MatrixShape& shape = tensor.shape;
    MatrixBytes bytes = {};
    CRIA_TRY(measured.find(shape, &bytes));
    const Slicing slicing = slice_matrix(shape);
    tensor.packed = memory + end;
    for (uint32_t k = 0; k < tensor.n_matrices; ++k) {
      if (bytes.packed > n_bytes - end) return Status::kBackendFailed;
      *reinterpret_cast<PackedMatrix*>(memory + end) = {
          .slices = nullptr,
          .n_slices = slicing.n_slices,
          .slice_tiles = static_cast<uint32_t>(tile_count(slicing.rows)),
          .first_slice = n_slices,
          .n_bytes = bytes.packed};
      end += bytes.packed;
      n_slices += slicing.n_slices;
    }
  }
  return end == n_bytes ? Status::kOk : Status::kBackendFailed;
}

// Slices of all matrices.
size_t count_slices(const Weights& weights) {
  size_t n = 0;
  for (size_t i = 0; i < count_tensors(weights); ++i) {
    if (!is_to_pack(weights, i)) continue;
    const Tensor& tensor = tensor_at(weights, i);
    n += size_t{tensor.n_matrices} * packed_matrix(tensor, 0).n_slices;
  }
  return n;
}

}  // namespace

Status pack_model(const PackSource& from, Weights* weights, uint8_t* memory, uint64_t n_bytes) {
  CRIA_TRY(place_matrices(weights, memory, n_bytes));
  std::atomic<size_t> next = 0;
  std::atomic<Status> failure = Status::kOk;
  const auto pack_some = [&](size_t /*begin*/, size_t /*end*/, size_t task) {
    const LoadScratch scratch = load_scratch(from, task);
    for (;;) {
      const size_t i = next.fetch_add(1);
      if (i >= count_tensors(*weights) || failure.load() != Status::kOk) return;
      if (!is_to_pack(*weights, i)) continue;
      const Tensor& tensor = tensor_at(*weights, i);
      Status status = pack_tensor(from, scratch, tensor);
      if (status == Status::kOk) {
        status = from.progress->add(tensor.n_matrices * matrix_bytes(tensor.shape), task);
      }
      if (status != Status::kOk) failure.store(status);
    }
  };
  parallel_for(from.threads, Even{from.threads.n_tasks}, pack_some);
  return failure.load();
}

Status make_operators(const Config& /*config*/, const Weights& weights, uint8_t* memory,
                      uint64_t n_bytes) {
  Region region = {.base = memory, .capacity = n_bytes, .n_allowed = 1, .used = 0, .n_asked = 0};
  const size_t n_slices = count_slices(weights);
  auto* operators =
      reinterpret_cast<SliceOperator*>(take(&region, n_slices * sizeof(SliceOperator)));
  if (operators == nullptr) return Status::kBackendFailed;
  for (size_t i = 0; i < count_tensors(weights); ++i) {
    if (!is_to_pack(weights, i)) continue;
    const Tensor& tensor = tensor_at(weights, i);
    const Slicing slicing = slice_matrix(tensor.shape);
    for (uint32_t k = 0; k < tensor.n_matrices; ++k) {
      const PackedMatrix& packed = packed_matrix(tensor, k);
      for (uint32_t slice = 0; slice < packed.n_slices; ++slice) {
        SliceOperator* made = &operators[packed.first_slice + slice];
        *made = {.op = nullptr, .n_rows = 0};
        CRIA_TRY(create_operator(tensor.shape, rows_of_slice(slicing, slice), packed.slices[slice],
                                 &region, &made->op));
      }
    }
  }
  return region.used == n_bytes ? Status::kOk : Status::kBackendFailed;
}

}  // namespace cria::xnnpack
