// Brings a model's weights to where they are used and points the decoder's view at them.
#pragma once

#include "quant/model/memory_plan.h"
#include "runtime/base/arena.h"
#include "runtime/base/parallel.h"
#include "runtime/base/status.h"
#include "runtime/loading/file_index.h"
#include "runtime/loading/load_progress.h"
#include "runtime/weights/weights.h"

namespace cria {

struct WeightLoading {
  const cria_source& source;
  const FileIndex& index;
  const PlanInput& planned_for;
  const MemoryPlan& memory;
  const Threads& threads;
  uint8_t* chunk_scratch;  // [n_tasks][kChunkScratchBytes], for compressed chunks
  LoadProgress* progress;
};

// Makes the decoder's view, in memory that the plan has counted: layers and tensors, none of them
// anywhere yet.
void lay_out_weights(const Config& config, Carver* carver, Weights* weights);

// Points the view at tensor number in canonical order, whose planes are at place; null: somewhere
// else. Tensors are bound in that order, as a bias goes to the matrix before it.
void bind_tensor(const TensorSpec& spec, uint32_t number, const uint8_t* place, Weights* weights);

// Weights used in place are checked there, unless skip_checksums says to trust them; all others are
// loaded to the arena, which the plan has counted. Matrices that the backend packs are left to it.
// The chunk table was checked (check_chunk_table), and weights laid out.
[[nodiscard]] Status open_weights(const WeightLoading& from, bool skip_checksums, Arena* arena,
                                  Weights* weights);

}  // namespace cria
