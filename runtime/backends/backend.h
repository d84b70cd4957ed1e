// A backend multiplies activations by the model's matrices. Everything else of the decoder is the
// same whatever the backend.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "quant/model/memory_plan.h"
#include "runtime/base/parallel.h"
#include "runtime/base/status.h"
#include "runtime/kernels/kernels.h"
#include "runtime/loading/file_index.h"
#include "runtime/loading/load_progress.h"
#include "runtime/weights/weights.h"

namespace cria {

// Rows [first_row, first_row + n_rows) of an input go through matrix index of a stack. A matrix has
// one segment, of all rows.
struct Segment {
  uint32_t index;
  uint32_t first_row;
  uint32_t n_rows;
};

// One product of a group that shares its input: y [rows of all segments][tensor->shape.rows],
// overwritten.
struct LinearCall {
  const Tensor* tensor;
  float* y;
};

// Segments follow each other, the first at row 0.
[[nodiscard]] inline size_t rows_of(std::span<const Segment> segments) {
  return segments.empty() ? 0 : size_t{segments.back().first_row} + segments.back().n_rows;
}

// Quantized inputs, as many as ProductInputs says of prefill_chunk rows; each is padded to a
// multiple of 128.
struct LinearScratch {
  int8_t* codes;     // [rows][padded input]
  float* scales;     // [rows][padded input / 32]
  int32_t* sums;     // [rows][padded input / 32]
  uint8_t* backend;  // BackendNeeds::step_bytes
};

// What a product is computed with.
struct LinearTools {
  const Kernels& kernels;
  const Threads& threads;
  const LinearScratch& scratch;
  void* workspace;  // what start made, null where workspace_bytes is 0
};

// Where matrices are packed from.
struct PackSource {
  const cria_source& source;
  const FileIndex& index;
  const Threads& threads;
  uint8_t* scratch;        // [load_bytes]
  uint8_t* chunk_scratch;  // [n_tasks][kChunkScratchBytes], for compressed chunks
  LoadProgress* progress;  // is told the bytes of each matrix
};

// Memory a backend wants besides what the plan has anyway, in bytes.
struct BackendNeeds {
  bool keeps_tile16;         // it reads matrices in the file's layout
  uint64_t model_bytes;      // what load packs, exactly
  uint64_t workspace_bytes;  // kept by each workspace, exactly
  uint64_t step_bytes;       // LinearScratch::backend
  uint64_t load_bytes;       // while load runs
};

struct Backend {
  const char* name;
  // Fails with kUnsupported when this CPU or build cannot run the config.
  Status (*needs)(const Config& config, uint32_t n_threads, uint32_t prefill_chunk,
                  BackendNeeds* needs);
  // Called once by cria_load, after the tensors that stay in tile16 are in place. Packs what it
  // wants into memory [model_bytes], 64-byte aligned, and points matrices there.
  Status (*load)(const PackSource& from, Weights* weights, uint8_t* memory, uint64_t n_bytes);
  // Called for each workspace: makes in memory [workspace_bytes], 64-byte aligned, what products of
  // one call at a time need besides the model.
  Status (*start)(const Config& config, const Weights& weights, uint8_t* memory, uint64_t n_bytes);
  // x [rows of all segments][cols] f32, within ProductInputs; the matrices of every call have the
  // same cols, and each stack has the matrices that segments name, each at most once. Adds no
  // bias. x may not overlap any y.
  Status (*linear)(const LinearTools& tools, const float* x, std::span<const Segment> segments,
                   std::span<const LinearCall> calls);
};

extern const Backend kExactBackend;
extern const Backend kXnnpackBackend;  // defined only where kHasXnnpack

}  // namespace cria
