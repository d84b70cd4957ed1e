// The object behind cria_workspace: what a call computes with.
#pragma once

#include <span>

#include "runtime/base/parallel.h"
#include "runtime/blocks/kv_cache.h"
#include "runtime/decode/model.h"

struct cria_workspace {
  const cria_model* model;
  cria::Threads threads;
  uint32_t n_rows;         // handled at once
  uint32_t max_entries;    // whose logits are computed together
  bool can_run;            // it has more than what text needs
  void* backend;           // the backend's own
  cria_progress progress;  // null: nobody asks
  void* progress_context;
  uint64_t n_done;  // rows times layers of the step at hand
  uint64_t n_to_do;
  // Overwritten by every call: activations, or candidates, or symbols of text.
  std::span<uint8_t> scratch;
  size_t encoding_bytes;  // of scratch, for text
  cria::StepMemory step;  // of a step, in scratch

  [[nodiscard]] cria::Row* rows() const { return reinterpret_cast<cria::Row*>(step.rows); }
  size_t n_bytes;                                   // of memory, this object included
  char chat_date[cria::format::kMaxChatDateBytes];  // what conversations name instead of their own
  uint32_t n_chat_date;
};
static_assert(sizeof(cria_workspace) <= cria::kWorkspaceObjectBytes);
