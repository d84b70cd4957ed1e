// The object behind cria_workspace: what a call computes with.
#pragma once

#include <span>

#include "runtime/base/parallel.h"
#include "runtime/decode/layer_step.h"
#include "runtime/decode/model.h"

namespace cria {

// Scratch of a forward pass, laid out as running_layout says. Rows are prefill_chunk.
struct StepScratch {
  float* x;       // [rows][d_model]
  float* normed;  // [rows][max(d_model, n_heads * head_dim)]
  float* block;   // [rows][d_model]
  BlockScratch blocks;
  LinearScratch linear;  // quantized inputs of matrices
  float* cosines;        // [rows][rotary_dim / 2]
  float* sines;          // [rows][rotary_dim / 2]
  Row* rows;             // [rows]
  float* turn_logits;    // [max_turns][vocab_size]; not for one turn
};

}  // namespace cria

struct cria_workspace {
  const cria_model* model;
  cria::Threads threads;
  uint32_t n_rows;         // handled at once
  uint32_t max_turns;      // whose logits are computed together
  bool can_run;            // it has more than what text needs
  void* backend;           // the backend's own
  cria_progress progress;  // null: nobody asks
  void* progress_context;
  uint64_t n_done;  // rows times layers of the step at hand
  uint64_t n_to_do;
  // Overwritten by every call: activations, or candidates, or symbols of text.
  std::span<uint8_t> scratch;
  size_t encoding_bytes;  // of scratch, for text
  cria::StepScratch step;
  size_t n_bytes;                                   // of memory, this object included
  char chat_date[cria::format::kMaxChatDateBytes];  // what conversations name instead of their own
  uint32_t n_chat_date;
};
static_assert(sizeof(cria_workspace) <= cria::kWorkspaceObjectBytes);
