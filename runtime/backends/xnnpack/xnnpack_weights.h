// A model's matrices as XNNPACK holds them: cut into slices of rows, packed each, so that the
// row-major copy XNNPACK packs from stays small and threads can share a matrix. The packed weights
// belong to the model and never change; the operators that run on them change with every run, so
// each workspace has its own.
#pragma once

#include <xnnpack.h>

#include <cstddef>
#include <cstdint>

#include "quant/format/format.h"
#include "quant/numbers/tile16.h"
#include "runtime/backends/backend.h"
#include "runtime/base/status.h"

namespace cria::xnnpack {

// What Tensor::packed points to; of a stack the record of its first matrix, and after n_bytes of
// its memory that of the next one.
struct PackedMatrix {
  const void* const* slices;  // [n_slices] packed weights, ascending
  uint32_t n_slices;
  uint32_t slice_tiles;  // tiles of 16 rows of each but the last, at least 1
  uint32_t first_slice;  // of all the model's, in the order of packing
  uint64_t n_bytes;      // of memory, this record included
};

// An operator of a workspace, on one slice.
struct SliceOperator {
  xnn_operator_t op;
  uint32_t n_rows;  // of activations that op is shaped for; 0: none yet
};

// Bytes that all matrices of a model take: packed, records included, in the model; and as operators
// in a workspace. kUnsupported when XNNPACK cannot multiply one of them on this CPU.
struct PackedBytes {
  uint64_t model;
  uint64_t workspace;
};
[[nodiscard]] Status packed_bytes(const Config& config, PackedBytes* n_bytes);

// Scratch that one thread loads with, in this order, each part rounded up to 64 bytes.
struct LoadLayout {
  uint64_t raw_codes;  // the chunk at hand of either plane
  uint64_t raw_scales;
  uint64_t tile_codes;  // one tile as the file has it
  uint64_t tile_scales;
  uint64_t source_codes;  // one slice, row-major
  uint64_t source_scales;
  uint64_t object;  // the operator that packs
  uint64_t total;
};
[[nodiscard]] LoadLayout load_layout(const Config& config);

// Packs every matrix but the embedding into memory [n_bytes], aligned to 64, and points
// Tensor::packed to it. Scratch: LoadLayout::total a thread, then what a thread decompresses with.
[[nodiscard]] Status pack_model(const PackSource& from, Weights* weights, uint8_t* memory,
                                uint64_t n_bytes);

// Makes the operators of a workspace in memory [n_bytes], aligned to 64: first [slices of the
// model] of SliceOperator, then the operators' objects.
[[nodiscard]] Status make_operators(const Config& config, const Weights& weights, uint8_t* memory,
                                    uint64_t n_bytes);

// The record of a matrix of a tensor that was packed.
[[nodiscard]] inline const PackedMatrix& packed_matrix(const Tensor& tensor, uint32_t index) {
  const auto* first = static_cast<const uint8_t*>(tensor.packed);
  const uint64_t n_bytes = static_cast<const PackedMatrix*>(tensor.packed)->n_bytes;
  return *reinterpret_cast<const PackedMatrix*>(first + index * static_cast<size_t>(n_bytes));
}

}  // namespace cria::xnnpack
