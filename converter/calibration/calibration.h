// A calibration from the command line's request to the codes of each matrix: the tokens, the
// rounding, and what the report says of them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "converter/calibration/calibrated_rounding.h"
#include "converter/calibration/calibration_request.h"
#include "converter/progress.h"
#include "converter/tensor_plan.h"

namespace cria::converter {

// Tokens that are used at most: those that are requested, or fewer for a large model, so that it
// does not take hours.
[[nodiscard]] uint32_t calibration_tokens(const Config& config, const CalibrationRequest& request);

// Bytes that a calibration takes besides the file being written, at most and about.
[[nodiscard]] uint64_t calibration_bytes(const Config& config, const CalibrationRequest& request,
                                         size_t n_threads);

struct CalibrationSummary {
  std::string source;            // "self", or the name of the file without its folder
  std::optional<uint64_t> seed;  // of the model's own text
  size_t n_tokens;
  size_t n_held_out;
};

class Calibration {
 public:
  // Writes or reads the tokens. Throws ProgramError: a file that is none of ids, weights that are
  // int4 already. What is passed by reference outlives this.
  Calibration(const CalibrationRequest& request, const Config& config, std::span<const float> rope,
              const TensorPlan& plan, hosted::ThreadPool* pool, Progress* progress);

  // As CalibratedRounding's. Says on the progress line how far it is.
  [[nodiscard]] const RoundedRows* rounded(const TensorSpec& spec);
  [[nodiscard]] std::optional<RoundingOutcome> outcome(const TensorSpec& spec) const;
  [[nodiscard]] const CalibrationSummary& summary() const { return summary_; }

 private:
  // "layer 3 of 16, 2 min left"
  [[nodiscard]] std::string state() const;

  Config config_;
  Progress* progress_;
  PlannedWeights weights_;
  uint32_t n_tokens_;
  std::optional<CalibratedRounding> rounding_;
  CalibrationSummary summary_;
  double start_seconds_ = 0;  // of the first layer
};

}  // namespace cria::converter
