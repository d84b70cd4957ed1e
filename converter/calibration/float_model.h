// A float model's blocks on many sequences at once: rows of activations are the tokens of all
// sequences, one behind the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "converter/calibration/float_decoder.h"
#include "converter/calibration/token_sequences.h"

namespace cria::converter {

using Floats = std::vector<float>;

class FloatModel {
 public:
  // decoder and weights outlive this.
  FloatModel(const FloatDecoder& decoder, const PlannedWeights& weights, TokenSequences sequences,
             hosted::ThreadPool* pool);

  [[nodiscard]] size_t n_rows() const { return positions_.size(); }
  [[nodiscard]] const TokenSequences& sequences() const { return sequences_; }
  [[nodiscard]] const FloatDecoder& decoder() const { return decoder_; }

  // The tokens' rows of a table, as layers take them, part by part of it: those of its rows first
  // to first + rows.size() / d_model are put into x, [n_rows][d_model].
  void embed(const Floats& rows, size_t first, Floats* x) const;
  [[nodiscard]] Floats normalize(const Floats& x, format::TensorRole norm, uint32_t layer) const;
  // What comes of attention, before its output matrix: [n_rows][q_width].
  [[nodiscard]] Floats attend(uint32_t layer, const FloatLinear& q, const FloatLinear& k,
                              const FloatLinear& v, const Floats& inputs) const;
  // silu(gate) * up: [n_rows][d_ff].
  [[nodiscard]] Floats activate(const FloatLinear& gate, const FloatLinear& up,
                                const Floats& inputs) const;
  // x [n_rows][d_model] += the block's output matrix times inputs.
  void add_block(const FloatLinear& linear, const Floats& inputs, Floats* x) const;

  // x through one layer, as read from the checkpoint or with other matrices.
  void run_layer(uint32_t index, const FloatLayer& layer, Floats* x) const;
  // Embedded tokens through all layers of the checkpoint, read one by one.
  void run(Floats* x) const;

 private:
  const FloatDecoder& decoder_;
  Config config_;
  const PlannedWeights& weights_;
  TokenSequences sequences_;
  hosted::ThreadPool* pool_;
  std::vector<size_t> first_rows_;  // of each sequence
  std::vector<size_t> positions_;   // of each row
};

}  // namespace cria::converter
