// Rounds a model's int4 matrices layer by layer so that, on the calibration's tokens and fed by the
// layers already rounded, each puts out what the float model's does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "converter/calibration/float_model.h"
#include "converter/calibration/gptq_rounding.h"
#include "converter/calibration/target_shift.h"
#include "converter/calibration/token_sequences.h"
#include "quant/model_layout.h"

namespace cria::converter {

struct RoundingSettings {
  RoundingSteps steps;
  float damping;        // share of the mean square of inputs
  float table_damping;  // likewise, of a table that is output layer and embedding
  bool shifts_targets;  // converter/calibration/target_shift.h
};

// What became of a matrix, measured on the sequences that are held out: the squared error of its
// outputs by their squares.
struct RoundingOutcome {
  bool kept_calibrated;  // else the codes found without calibration, which were no worse
  double plain_error;
  double calibrated_error;
};

class CalibratedRounding {
 public:
  // sequences: at least 8; every eighth is held out. What is passed by reference outlives this.
  CalibratedRounding(const FloatDecoder& decoder, const PlannedWeights& weights,
                     const TokenSequences& sequences, const RoundingSettings& settings,
                     hosted::ThreadPool* pool);

  // The codes of a matrix, asked for in the canonical order; nullptr: it is none of integers, or
  // they are those that are found without calibration. Those of a layer are found when the first of
  // them is asked for, and kept until the next layer's.
  [[nodiscard]] const RoundedRows* rounded(const TensorSpec& spec);
  // nullptr: there was no choice.
  [[nodiscard]] const RoundingOutcome* outcome(const TensorSpec& spec) const;
  [[nodiscard]] uint32_t n_layers_done() const { return n_layers_done_; }
  [[nodiscard]] size_t n_held_out() const { return model_.n_rows() - n_training_; }

 private:
  using Key = std::pair<format::TensorRole, uint32_t>;
  // Activations, [model_.n_rows()][width], of the float model and of the layers already rounded.
  struct Both {
    Floats exact;
    Floats rounded;
    // [model_.n_rows()][outputs]: what outputs should have besides; empty: nothing.
    Floats missing;
  };
  struct BothLinear {
    FloatLinear exact;
    FloatLinear rounded;
  };
  // Rows of a matrix, rounded both ways, and their outputs' squares on held-out tokens.
  struct RoundedPart {
    PanelMatrix exact;
    PanelMatrix of_plain, of_calibrated;
    RoundedRows plain, calibrated;
    double signal = 0;
    double plain_error = 0;
    double calibrated_error = 0;
  };
  // How the targets of matrices that share inputs are found; nothing: they are the weights.
  struct Shift {
    std::optional<TargetShift> solve;
    PanelMatrix cross;  // cross_products, where no outputs are missing
  };

  // Whether calibration finds a matrix's codes: those of four bits and, where targets are shifted,
  // those of eight, which then make up for what the layers before them have changed.
  [[nodiscard]] bool is_rounded(const MatrixShape& shape) const;
  // Both models' embedded tokens, and the codes of the embedding.
  void start();
  // What a table that is output layer too is rounded by.
  [[nodiscard]] RoundingBasis make_table_basis() const;
  // Some rows of the embedding.
  [[nodiscard]] RoundedRows round_table(const TensorSpec& part, const Floats& weights,
                                        const std::optional<RoundingBasis>& basis) const;
  void run_layer(uint32_t layer);
  [[nodiscard]] Both normalize(format::TensorRole norm, uint32_t layer) const;

  [[nodiscard]] RoundingBasis make_basis_of(const Both& inputs, size_t cols) const;
  [[nodiscard]] Floats training_difference(const Both& inputs, size_t cols) const;
  [[nodiscard]] PanelMatrix cross_products(const Both& inputs, size_t cols) const;
  [[nodiscard]] Floats missing_products(const Both& inputs, const PanelMatrix& weights) const;
  // What a matrix should be: weights, which panels are too.
  [[nodiscard]] Floats targets_of(const Floats& weights, const PanelMatrix& panels,
                                  const Both& inputs, const Shift& shift) const;
  // Rounds matrices that share inputs.
  [[nodiscard]] std::vector<BothLinear> round_group(const std::vector<format::TensorRole>& roles,
                                                    uint32_t layer, const Both& inputs);
  // What the rounded model's residual stream lacks, before its block's multiplier.
  [[nodiscard]] Floats missing_residual() const;
  [[nodiscard]] RoundedPart round_part(const TensorSpec& spec, const Floats& weights,
                                       const Both& inputs, const RoundingBasis& basis,
                                       const Shift& shift) const;
  [[nodiscard]] Shift make_shift(const Both& inputs, const RoundingBasis& basis) const;
  // Notes whose error is less, and keeps those codes.
  void keep_better(const TensorSpec& spec, RoundedPart* part);
  // Part by part: nothing of it comes through to other matrices, and it may be large.
  void round_output_layer(const PlannedTensor& tensor);
  [[nodiscard]] BothLinear round_matrix(const PlannedTensor& tensor, const Both& inputs,
                                        const RoundingBasis& basis, const Shift& shift);
  // The outputs of held-out rows.
  [[nodiscard]] Floats held_out_outputs(const Floats& inputs, const PanelMatrix& matrix) const;
  [[nodiscard]] PanelMatrix panels_of(const RoundedRows& rounded, const MatrixShape& shape) const;

  const PlannedWeights& weights_;
  RoundingSettings settings_;
  hosted::ThreadPool* pool_;
  size_t n_training_ = 0;  // rows that are calibrated on; those held out follow
  FloatModel model_;
  Config config_;
  bool started_ = false;
  uint32_t n_layers_done_ = 0;
  Both x_;  // the residual stream
  std::map<Key, RoundedRows> rounded_;
  std::map<Key, RoundingOutcome> outcomes_;
};

}  // namespace cria::converter
