// Everything a session is: the object behind cria_session.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/memory_plan.h"
#include "runtime/backends/backend.h"
#include "runtime/base/arena.h"
#include "runtime/base/random.h"
#include "runtime/decode/kv_cache.h"
#include "runtime/decode/model.h"
#include "runtime/kernels/kernels.h"
#include "runtime/loading/file_index.h"
#include "runtime/text/tokenizer.h"

namespace cria {

// Scratch of a forward pass, laid out as running_layout says. Rows are prefill_chunk.
struct StepScratch {
  float* x;                 // [rows][d_model]
  float* normed;            // [rows][max(d_model, n_heads * head_dim)]
  float* q;                 // [rows][n_heads * head_dim]
  float* k;                 // [rows][n_kv_heads * head_dim]
  float* v;                 // [rows][n_kv_heads * head_dim]
  float* gate;              // [rows][d_ff]; shares memory with q, k, v
  float* up;                // [rows][d_ff]
  float* projected;         // [rows][d_model]
  int8_t* quantized;        // [rows][padded input]
  float* quantized_scales;  // [rows][padded input / 32]
  int32_t* quantized_sums;  // [rows][padded input / 32]
  float* rope_cos;          // [rows][head_dim / 2]
  float* rope_sin;          // [rows][head_dim / 2]
  uint8_t* attention;       // [n_threads][attention_per_thread]
  size_t attention_per_thread;
  uint8_t* backend;  // the backend's step bytes
};

}  // namespace cria

// Fields in the order of their lifetimes.
struct cria_session {
  // Fixed once open.
  cria_source source;
  cria::Arena arena;
  cria::FileIndex index;
  cria::Model model;
  cria::PlanInput plan_input;
  cria::MemoryPlan plan;
  const cria::Backend* backend;
  void* backend_state;  // the backend's own, in the model part of the arena
  cria::Kernels kernel_table;
  const cria::Kernels* kernels;  // the table above
  cria_parallel_for parallel_for;
  void* parallel_context;
  bool has_tokenizer;
  bool has_chat_template;
  cria::Tokenizer tokenizer;
  cria::ChatTemplate chat_template;
  // Changes as the conversation goes.
  cria::KvCache kv;
  uint32_t* history;  // [context] tokens of the positions used
  float* logits;      // [vocab_size]
  uint32_t position;
  bool has_logits;
  cria::Pcg32 random;
  // Overwritten by every step; loading, sampling and encoding use the same bytes.
  uint8_t* step;  // [plan.step]
  cria::StepScratch scratch;
};
static_assert(sizeof(cria_session) <= cria::kSessionObjectBytes);
