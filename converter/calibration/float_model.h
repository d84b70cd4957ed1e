// The float model on rows of many sequences at once, layer by layer: the runtime's decoder, whose
// matrices are multiplied by whoever asks. Its bits do not depend on machine, compiler and threads,
// nor a row's on the rows of other sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "converter/calibration/planned_weights.h"
#include "converter/calibration/token_sequences.h"
#include "platforms/hosted/base/thread_pool.h"
#include "runtime/backends/backend.h"
#include "runtime/decode/decoder.h"

namespace cria::converter {

using Floats = std::vector<float>;

// y [n][rows] of each call = x [n][cols] times its matrix, of a stack that at index; biases are
// added by others. The calls share x. Tensor::number is the place in PlannedWeights::tensors.
using Products = std::function<void(std::span<const LinearCall> calls, uint32_t index,
                                    const float* x, size_t n)>;

struct TokenRow {
  uint32_t sequence;
  uint32_t position;
  uint32_t token;
};
// The rows of sequences, one after the other.
[[nodiscard]] std::vector<TokenRow> rows_of(const TokenSequences& sequences);

// Whether it computes models of this config: it has no per-layer embeddings, and keeps the keys and
// values of one layer at a time.
[[nodiscard]] bool float_model_computes(const Config& config);

class FloatModel {
 public:
  struct Rooms {
    size_t n_sequences;
    size_t n_positions;  // of each, at most
    size_t n_rows;       // that go through at once, at most
    KvFormat kv_format;
    bool keeps_all_layers;  // else each layer's state takes the place of that before
  };

  // What is passed outlives this. Throws std::bad_alloc.
  FloatModel(const Config& config, const PlannedWeights& weights, const Rooms& rooms,
             hosted::ThreadPool* pool);
  // All rows of sequences at once, a layer at a time.
  FloatModel(const Config& config, const PlannedWeights& weights, const TokenSequences& sequences,
             hosted::ThreadPool* pool);
  FloatModel(const FloatModel&) = delete;
  FloatModel& operator=(const FloatModel&) = delete;

  // Bytes that one takes.
  [[nodiscard]] static uint64_t bytes(const Config& config, const Rooms& rooms, size_t n_threads);

  // The rows that go through from here on; those of a sequence stand in order, after those before.
  void set_rows(std::span<const TokenRow> rows);
  [[nodiscard]] size_t n_rows() const { return rows_.size(); }

  // Part by part of the embedding: rows of tokens first to first + table.size() / d_model become
  // what layers read, x [n_rows][d_model].
  void embed(const Floats& table, size_t first, Floats* x) const;
  // The same of one row.
  void embed_row(size_t row, const float* of_token, Floats* x) const;

  // x through a layer, whose parts are by themselves what mix and feed_forward do.
  void run_layer(uint32_t layer, const Products& products, Floats* x);
  void mix(uint32_t layer, const Products& products, Floats* x);
  void feed_forward(uint32_t layer, const Products& products, Floats* x);
  // What the output layer reads.
  [[nodiscard]] Floats finish(const Floats& x) const;
  // What the output layer gives, [n][vocab_size], becomes logits in place.
  void finish_logits(size_t n, float* logits) const;

 private:
  template <typename Part>
  void run(const Products& products, Floats* x, const Part& part);
  void bind_tensors();
  void make_states(const Rooms& rooms);
  [[nodiscard]] Step step(void* of_backend, float* x) const;

  Config config_;
  const PlannedWeights& planned_;
  StepShape shape_;
  Threads threads_;
  Kernels kernels_;
  Weights weights_ = {};
  std::vector<Floats> vectors_;
  std::vector<std::vector<KvCache>> caches_;  // [n_sequences][n_kinds]
  std::vector<LayerStates> states_;
  std::vector<Row> rows_;
  Floats cosines_;
  float* normed_;
  float* block_;
  uint8_t* scratch_;
  std::vector<std::unique_ptr<uint8_t[]>> memory_;
};

}  // namespace cria::converter
