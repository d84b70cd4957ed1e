// What a model's output suffers from the rounding of one matrix: how far the distribution of the
// next token moves from the float model's, on the calibration's tokens.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "converter/calibration/held_matrices.h"
#include "quant/numbers/quantize.h"

namespace cria::converter {

class OutputDivergence {
 public:
  // What is passed by reference outlives this.
  OutputDivergence(const Config& config, const PlannedWeights& weights,
                   const TokenSequences& sequences, QuantMethod method, hosted::ThreadPool* pool);

  // Bytes of the streams that go through the layers at once, at most; one always does.
  static constexpr size_t kStreamBytes = size_t{256} << 20;

  // The mean KL divergence, in nats a token, that each of these matrices alone gives when it is
  // rounded, to a format of integers. A matrix may come several times. All go through the layers
  // beside the float model, so many at once as stream_bytes allow; none changes another's bits.
  // Calls progress(done, all) now and then. Throws ProgramError.
  [[nodiscard]] std::vector<double> measure(std::span<const TensorSpec> matrices,
                                            const std::function<void(size_t, size_t)>& progress,
                                            size_t stream_bytes = kStreamBytes);

  // Rows of a matrix that are on their way at once.
  static constexpr size_t kPartRows = 1024;
  // Rows of logits that are computed at once, where they fit these bytes; one task's always are.
  static constexpr size_t kLogitBytes = size_t{64} << 20;

 private:
  struct Variant {
    const TensorSpec* spec;
    Stream stream;
    double sum = 0;
  };

  [[nodiscard]] bool is_output_layer(const TensorSpec& spec) const;
  // The embedded tokens; rounded: with rows of the embedding rounded to it; nullptr: none are.
  [[nodiscard]] Floats embed(const TensorSpec* rounded) const;
  // A tensor's matrix, rounded where rounded is not null.
  [[nodiscard]] PanelMatrix panels(const PlannedTensor& tensor, uint32_t index,
                                   const TensorSpec* rounded) const;
  [[nodiscard]] PanelMatrix output_layer(const TensorSpec* rounded) const;
  // n rows of logits from first on.
  void find_logits(const Floats& x, const PanelMatrix& head, size_t first, size_t n,
                   float* logits) const;
  void run_batch(std::span<const TensorSpec> matrices, const std::function<void()>& step,
                 double* found);
  void run_layers(std::vector<Variant>* variants, const std::function<void()>& step);
  // A variant through a layer; its matrices of this layer take the places of those held.
  void run_layer(uint32_t number, HeldMatrices* held, Variant* variant);
  // Adds up the divergences of those whose output layer is head.
  void compare(const PanelMatrix& head, std::span<Variant* const> variants) const;

  const PlannedWeights& weights_;
  QuantMethod method_;
  hosted::ThreadPool* pool_;
  FloatModel model_;
  Config config_;
  Floats logits_;  // the float model's, [rows][vocab_size]; empty before the first batch
};

}  // namespace cria::converter
