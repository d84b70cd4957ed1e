// What blocks compute with: the rows of a step on their way through a layer.
#pragma once

#include <initializer_list>
#include <span>

#include "runtime/backends/backend.h"
#include "runtime/blocks/kv_cache.h"
#include "runtime/weights/weights.h"

namespace cria {

struct Step {
  const Config& config;
  const Kernels& kernels;
  const Threads& threads;
  const Backend& backend;
  LinearScratch quantized;  // of the backend: inputs of matrices
  void* of_backend;         // what its start made
  StepShape shape;          // that scratch is laid out for
  std::span<const Row> rows;
  float* x;               // [rows][d_model], the residual stream
  float* normed;          // [rows][max(d_model, what mixers bring back)]
  float* block;           // [rows][d_model], what a block adds
  const float* embedded;  // [rows][d_model], x before the layers, with per-layer embeddings
  const float* cosines;   // [rows], of each RoPE table its cosines, then its sines
  uint8_t* scratch;       // of the block at hand

  [[nodiscard]] size_t n() const { return rows.size(); }
  [[nodiscard]] const format::ModelScalars& model() const { return *config.model; }
};

// y = W * x + bias of each call; tensors that are null are left out. All share x [n][cols].
[[nodiscard]] Status linear(const Step& s, const float* x, std::initializer_list<LinearCall> calls);

// The same of stacks, whose segments have rows of x each; biases are those of their matrices.
[[nodiscard]] Status linear(const Step& s, const float* x, std::span<const Segment> segments,
                            std::initializer_list<LinearCall> calls);

// y [n][d_model] = x normalized as a kind's norms are; y may be x.
void normalize(const Step& s, format::Norm norm, float epsilon, const Tensor& weight,
               const float* x, float* y);

// x [n][n_heads][head_dim], each head by itself; weight null: left as they are.
void normalize_heads(const Step& s, float epsilon, const Tensor* weight, size_t n_heads,
                     size_t head_dim, float* x);

// Turns of each head of x [n][n_heads][head_dim] the first elements by a RoPE table.
void rotate(const Step& s, uint8_t table, size_t n_heads, size_t head_dim, float* x);

// Calls body(begin, end) on parts of [0, n_values), on all threads; parts are so long that one row
// goes to several, too.
template <typename Body>
void for_values(const Step& s, size_t n_values, const Body& body) {
  constexpr size_t kBlock = 1024;
  const size_t n_blocks = (n_values + kBlock - 1) / kBlock;
  parallel_for(s.threads, Even{n_blocks}, [&](size_t begin, size_t end, size_t /*task*/) {
    const size_t to = end * kBlock;
    body(begin * kBlock, to < n_values ? to : n_values);
  });
}

}  // namespace cria
