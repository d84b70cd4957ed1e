// The float model on rows of many sequences at once, layer by layer: the runtime's decoder, whose
// matrices are multiplied by whoever asks. Its bits do not depend on machine, compiler and threads,
// nor a row's on the rows of other sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
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

// Rows on their way through the layers. Several go through one model, a layer at a time.
struct Stream {
  Floats x;                                // [n_rows][d_model], the residual stream
  std::shared_ptr<const Floats> embedded;  // x before the layers, with per-layer embeddings
  // What becomes of n rows of the per-layer table; nothing: they stay as they are.
  std::function<void(size_t n, float* rows)> round_table;
  // Keys and values that later layers read, by the kind of those that wrote them.
  std::map<uint8_t, std::shared_ptr<const std::vector<uint8_t>>> kept;
};

class FloatModel {
 public:
  struct Rooms {
    size_t n_sequences;
    size_t n_positions;  // of each, at most
    size_t n_rows;       // that go through at once, at most
    KvFormat kv_format;
    bool keeps_all_layers;  // of one stream; else each layer's state takes the place of that before
  };

  // What is passed outlives this. Throws std::bad_alloc.
  FloatModel(const Config& config, const PlannedWeights& weights, const Rooms& rooms,
             hosted::ThreadPool* pool);
  // All rows of sequences at once, a layer at a time.
  FloatModel(const Config& config, const PlannedWeights& weights, const TokenSequences& sequences,
             hosted::ThreadPool* pool);
  FloatModel(const FloatModel&) = delete;
  FloatModel& operator=(const FloatModel&) = delete;

  // Bytes that one takes, and those of a stream that are not shared with others.
  [[nodiscard]] static uint64_t bytes(const Config& config, const Rooms& rooms, size_t n_threads);
  [[nodiscard]] static uint64_t stream_bytes(const Config& config, const Rooms& rooms);
  [[nodiscard]] uint64_t stream_bytes() const { return stream_bytes(config_, rooms_); }

  // The rows that go through from here on; those of a sequence stand in order, after those before.
  void set_rows(std::span<const TokenRow> rows);
  [[nodiscard]] size_t n_rows() const { return rows_.size(); }

  // Part by part of the embedding: rows of tokens first to first + table.size() / d_model become
  // what layers read, x [n_rows][d_model].
  void embed(const Floats& table, size_t first, Floats* x) const;
  // The same of one row.
  void embed_row(size_t row, const float* of_token, Floats* x) const;

  // A stream of embedded tokens.
  [[nodiscard]] Stream start(Floats x) const;
  // It through a layer, whose parts are by themselves what mix and feed_forward do.
  void run_layer(uint32_t layer, const Products& products, Stream* stream);
  void mix(uint32_t layer, const Products& products, Stream* stream);
  void feed_forward(uint32_t layer, const Products& products, Stream* stream);
  // What the output layer reads.
  [[nodiscard]] Floats finish(const Floats& x) const;
  // What the output layer gives, [n][vocab_size], becomes logits in place.
  void finish_logits(size_t n, float* logits) const;

 private:
  template <typename Part>
  void run(const Products& products, Stream* stream, const Part& part);
  void bind_tensors();
  void make_states(const Rooms& rooms);
  [[nodiscard]] Step step(void* of_backend, Stream* stream) const;
  [[nodiscard]] bool is_read_later(uint32_t layer) const;
  void keep_state(uint8_t kind, Stream* stream) const;
  void restore_state(uint8_t kind, const Stream& stream);
  // Rows of the per-layer table, to where finish_layer finds them.
  void read_table(uint32_t layer, const Stream& stream, const Step& s) const;

  Config config_;
  const PlannedWeights& planned_;
  Rooms rooms_;
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
