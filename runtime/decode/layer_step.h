// A step as layers see it: rows on their way through all of them, and what they are computed with.
#pragma once

#include <initializer_list>
#include <span>

#include "quant/format.h"
#include "runtime/backends/backend.h"
#include "runtime/base/parallel.h"
#include "runtime/base/status.h"
#include "runtime/decode/kv_cache.h"
#include "runtime/kernels/kernels.h"
#include "runtime/weights/weights.h"

namespace cria {

// What blocks keep between their products. A mixer's part and a feed-forward's share memory.
struct BlockScratch {
  float* q;            // [rows][n_heads * head_dim]
  float* k;            // [rows][n_kv_heads * head_dim]
  float* v;            // [rows][n_kv_heads * head_dim]
  float* gate;         // [rows][d_ff]
  float* up;           // [rows][d_ff]
  uint8_t* attention;  // [n_threads][attention_per_thread]
  size_t attention_per_thread;
  size_t attention_queries;
};

struct Step {
  const format::ModelConfig& config;
  const Kernels& kernels;
  const Threads& threads;
  const Backend& backend;
  LinearTools linear;
  std::span<const Row> rows;
  float* x;        // [rows][d_model], the residual stream
  float* normed;   // [rows][max(d_model, n_heads * head_dim)], what a block reads; its own once its
                   // input matrices have run
  float* block;    // [rows][d_model], what a block adds
  float* cosines;  // of RoPE, [rows][rotary_dim / 2]
  float* sines;
  const BlockScratch& blocks;
};

// y = W * x + bias for each pair of W and y; the pairs share x [rows][cols].
[[nodiscard]] Status linear(const Step& s, const float* x, std::initializer_list<LinearCall> calls);

// y [rows][d_model], each row of x normalized; y may be x.
void normalize(const Step& s, const Tensor& weight, const float* x, float* y);

}  // namespace cria
