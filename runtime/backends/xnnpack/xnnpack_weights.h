// A model's matrices as XNNPACK holds them: cut into slices of rows, an operator each, so that the
// row-major copy XNNPACK packs from stays small and threads can share a matrix.
#pragma once

#include <xnnpack.h>

#include <cstddef>
#include <cstdint>

#include "quant/format.h"
#include "quant/tile16.h"
#include "runtime/base/status.h"
#include "runtime/decode/session.h"

namespace cria::xnnpack {

struct Slice {
  xnn_operator_t op;
  uint32_t first_tile;  // of the matrix, tiles of 16 rows
  uint32_t n_rows;      // of activations that op is shaped for; 0: none yet
};

// What Matrix::packed points to.
struct PackedMatrix {
  Slice* slices;  // [n_slices], ascending
  uint32_t n_slices;
};

// Bytes of the arena that all matrices of a model take, records included. kUnsupported when
// XNNPACK cannot multiply one of them on this CPU.
[[nodiscard]] Status packed_model_bytes(const format::ModelConfig& config, uint64_t* n_bytes);

// Scratch that one thread loads with, in this order, each part rounded up to 64 bytes.
struct LoadLayout {
  uint64_t raw_codes;  // the chunk at hand of either plane
  uint64_t raw_scales;
  uint64_t tile_codes;  // one tile as the file has it
  uint64_t tile_scales;
  uint64_t source_codes;  // one slice, row-major
  uint64_t source_scales;
  uint64_t total;
};
[[nodiscard]] LoadLayout load_layout(const format::ModelConfig& config);

// Packs every matrix but the embedding into memory [packed_model_bytes], aligned to 64, and points
// Matrix::packed to it. Scratch is taken from session->step: LoadLayout::total a thread, then what
// a thread decompresses with.
[[nodiscard]] Status pack_model(cria_session* session, uint8_t* memory, uint64_t n_bytes);

}  // namespace cria::xnnpack
