#include "converter/calibration/calibration_text.h"

#include <algorithm>

#include "converter/calibration/calibration_request.h"
#include "converter/error.h"

namespace cria::converter {

size_t sequence_length(const Config& config, uint32_t n_tokens) {
  return std::min({kCalibrationLength, size_t{config.model->max_context},
                   std::max<size_t>(2, n_tokens / kCalibrationSequences)});
}

size_t sequence_count(const Config& config, uint32_t n_tokens) {
  return std::max(kCalibrationSequences, n_tokens / sequence_length(config, n_tokens));
}

SelfTextRequest self_text_request(const Config& config, uint32_t n_tokens) {
  return {sequence_count(config, n_tokens), sequence_length(config, n_tokens),
          kCalibrationTemperature, kCalibrationSeed};
}

void refuse_int4_sources(const TensorPlan& plan, const std::string& options) {
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.source == nullptr || tensor.source->int4_group() == 0) continue;
    throw ProgramError(ExitCode::kInvalidInput,
                       tensor.source->path().string() + ": tensor " + tensor.source->name() +
                           " is int4 already and would be rounded again; leave out " + options +
                           " to keep its codes");
  }
}

TokenSequences calibration_text(const std::optional<std::filesystem::path>& file, uint32_t n_tokens,
                                const Config& config, const PlannedWeights& weights,
                                hosted::ThreadPool* pool, Progress* progress) {
  const size_t length = sequence_length(config, n_tokens);
  if (file) return read_token_file(*file, config.model->vocab_size, length, n_tokens);
  size_t n_done = 0;
  progress->start(size_t{n_tokens});
  const auto advance = [&](size_t done, size_t) {
    progress->advance(done - n_done, "the model writes text to be calibrated with");
    n_done = done;
  };
  TokenSequences text =
      write_self_text(config, weights, self_text_request(config, n_tokens), pool, advance);
  progress->finish();
  return text;
}

}  // namespace cria::converter
