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
#include "quant/model/model_layout.h"

namespace cria::converter {

struct RoundingSettings {
  RoundingSteps steps;
  float damping;        // share of the mean square of inputs
  float table_damping;  // likewise, of a table that is output layer and embedding
  bool shifts_targets;  // converter/calibration/target_shift.h
};

// What became of a matrix, or of those of a stack, measured on rows that are held out: the squared
// error of the outputs by their squares.
struct RoundingOutcome {
  uint32_t n_calibrated;  // others have the codes found without calibration, which were no worse
  uint32_t n_unseen;      // of these others, experts that too few rows came to
  double plain_error;     // without calibration
  double error;           // with the codes that were kept
};

class CalibratedRounding {
 public:
  // sequences: at least kHeldOutOneIn, of which one in so many is held out. What is passed by
  // reference outlives this.
  CalibratedRounding(const Config& config, const PlannedWeights& weights,
                     const TokenSequences& sequences, const RoundingSettings& settings,
                     hosted::ThreadPool* pool);

  // The codes of a matrix, asked for in the canonical order; nullptr: it is none of integers, or
  // they are those that are found without calibration. Those of a layer are found when the first of
  // them is asked for, and kept until the next layer's.
  [[nodiscard]] const RoundedRows* rounded(const TensorSpec& spec);
  // nullopt: there was no choice.
  [[nodiscard]] std::optional<RoundingOutcome> outcome(const TensorSpec& spec) const;
  [[nodiscard]] uint32_t n_layers_done() const { return n_layers_done_; }
  [[nodiscard]] size_t n_held_out() const { return model_.n_rows() - n_training_; }

  static constexpr size_t kPartRows = 4096;  // of a table, in memory at once
  static constexpr size_t kHeldOutOneIn = 8;

 private:
  using Key = std::pair<format::TensorRole, uint32_t>;
  // Squares of the outputs of held-out rows, and of their errors.
  struct Sums {
    double signal = 0;
    double plain = 0;
    double kept = 0;
    uint32_t n_calibrated = 0;
    uint32_t n_unseen = 0;
  };
  struct Rounded {
    RoundedRows rows;
    std::vector<bool> is_there;  // of each matrix
    Sums sums;
  };
  // What goes into matrices that share it: rows that are calibrated on, then those held out.
  struct Inputs {
    const float* rounded;  // [n][cols], of the layers already rounded
    size_t n, n_training, cols;
    // [n][cols], of the float model; where targets are shifted, training rows less rounded ones.
    // Empty: its rows are others.
    Floats exact;
    const Floats* missing;  // [n][outputs], what outputs should have besides; nullptr: nothing
  };
  // How the targets of matrices that share inputs are found; nothing: they are the weights.
  struct Shift {
    std::optional<TargetShift> solve;
    PanelMatrix cross;  // cross_products, where no outputs are missing
  };
  // Rows of a matrix, rounded both ways, and what each gives.
  struct RoundedPart {
    PanelMatrix of_plain, of_calibrated;
    RoundedRows plain, calibrated;
    double signal = 0;
    double plain_error = 0;
    double calibrated_error = 0;
  };

  // Whether calibration finds a matrix's codes: those of four bits and, where targets are shifted,
  // those of eight, which then make up for what the layers before them have changed.
  [[nodiscard]] bool is_rounded(const TensorSpec& spec) const;
  [[nodiscard]] bool is_any_rounded(std::span<const LinearCall> calls) const;
  [[nodiscard]] const TensorSpec& spec_of(const Tensor& matrix) const;
  // Both models' embedded tokens, and the codes of what is read before the layers.
  void start();
  void round_embedding(const PlannedTensor& tensor);
  // How the rounded model reads the per-layer table, and the codes of what all layers project of
  // the embedded tokens.
  void round_per_layer();
  // What a table that is output layer too is rounded by.
  [[nodiscard]] RoundingBasis make_table_basis() const;
  // Some rows of the embedding.
  [[nodiscard]] RoundedRows round_table(const TensorSpec& part, const Floats& weights,
                                        const std::optional<RoundingBasis>& basis) const;
  void run_layer(uint32_t layer);
  // Both models through a mixer or a feed-forward: the float model first, whose inputs are kept.
  void run_block(uint32_t layer, void (FloatModel::*run)(uint32_t, const Products&, Stream*));

  void multiply_exactly(std::span<const LinearCall> calls, uint32_t index, const float* x,
                        size_t n) const;
  // Rounds matrices that share inputs, and multiplies by what they become.
  void round_group(std::span<const LinearCall> calls, uint32_t index, const float* x, size_t n);
  // Multiplies by what a layer's projection became before the layers.
  void multiply_projection(const LinearCall& call, uint32_t index, const float* x, size_t n);
  [[nodiscard]] Inputs inputs_of(const Tensor& matrix, uint32_t index, const float* x, size_t n);
  void subtract_rounded(Inputs* inputs) const;

  [[nodiscard]] RoundingBasis make_basis_of(const Inputs& inputs) const;
  [[nodiscard]] PanelMatrix cross_products(const Inputs& inputs) const;
  [[nodiscard]] Floats missing_products(const Inputs& inputs, const PanelMatrix& weights) const;
  // What a matrix should be: weights, which panels are too.
  [[nodiscard]] Floats targets_of(const Floats& weights, const PanelMatrix& panels,
                                  const Inputs& inputs, const Shift& shift) const;
  // What the rounded model's residual stream lacks, before its block's multiplier.
  [[nodiscard]] Floats missing_residual() const;
  [[nodiscard]] Shift make_shift(const Inputs& inputs, const RoundingBasis& basis) const;
  [[nodiscard]] RoundedPart round_part(const TensorSpec& spec, const Floats& weights,
                                       const Inputs& inputs, const RoundingBasis& basis,
                                       const Shift& shift) const;
  // Places for a tensor's codes.
  Rounded& make_rounded(const TensorSpec& spec);
  // Notes whose error is less, and keeps those codes. Returns whether it is the calibrated ones'.
  bool keep_better(const TensorSpec& spec, uint32_t index, const RoundedPart& part);
  // Rounds, without calibration, a matrix that too few rows came to, and keeps its codes.
  RoundedRows keep_plain(const TensorSpec& spec, uint32_t index, const Floats& weights);
  Rounded& keep(const TensorSpec& spec, uint32_t index, const RoundedRows& rows);
  // Does so with those that no rows came to.
  void fill_up(const PlannedTensor& tensor);
  // Part by part: nothing of it comes through to other matrices, and it may be large.
  void round_output_layer(const PlannedTensor& tensor);
  // The outputs of held-out rows.
  [[nodiscard]] Floats held_out_outputs(const Inputs& inputs, const float* x,
                                        const PanelMatrix& matrix) const;
  [[nodiscard]] PanelMatrix panels_of(const RoundedRows& rounded, const MatrixShape& shape) const;

  const PlannedWeights& weights_;
  RoundingSettings settings_;
  hosted::ThreadPool* pool_;
  size_t n_training_ = 0;  // rows that are calibrated on; those held out follow
  TokenSequences sequences_;
  FloatModel model_;
  Config config_;
  bool started_ = false;
  uint32_t n_layers_done_ = 0;
  Stream exact_, rounded_;  // of both models
  Floats missing_;          // missing_residual before the block at hand
  std::map<std::pair<uint32_t, uint32_t>, Floats> recorded_;  // inputs of the float model
  std::map<Key, Rounded> found_;
};

}  // namespace cria::converter
