// A model's matrices as XNNPACK holds them: cut into slices of rows, packed each, so that the
// row-major copy XNNPACK packs from stays small and threads can share a matrix. The packed weights
// belong to the model and never change; the operators that run on them change with every run, so
// each workspace has its own.
#pragma once

#include <xnnpack.h>

#include <cstddef>
#include <cstdint>

#include "quant/format.h"
#include "quant/tile16.h"
#include "runtime/backends/backend.h"
#include "runtime/base/status.h"

namespace cria::xnnpack {

// What Tensor::packed points to.
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

// Tensor i of the order in which matrices are packed: lm_head, then those of the file; null where
// i is the place of one that is not packed.
[[nodiscard]] uint32_t packing_places(const Weights& weights);
[[nodiscard]] const Tensor* packed_tensor(const Weights& weights, uint32_t i);

}  // namespace cria::xnnpack
