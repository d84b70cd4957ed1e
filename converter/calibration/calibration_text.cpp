#include "converter/calibration/calibration_text.h"

#include <algorithm>

#include "converter/calibration/calibration_wish.h"
#include "converter/calibration/self_text.h"
#include "converter/error.h"

namespace cria::converter {

size_t sequence_length(const Config& config, uint32_t n_tokens) {
  return std::min({kCalibrationLength, size_t{config.model->max_context},
                   std::max<size_t>(2, n_tokens / kCalibrationSequences)});
}

size_t sequence_count(const Config& config, uint32_t n_tokens) {
  return std::max(kCalibrationSequences, n_tokens / sequence_length(config, n_tokens));
}

uint64_t layer_weight_count(const Config& config) {
  const uint64_t d = config.model->d_model;
  const format::LayerKind& layer = config.kinds.front();
  const uint64_t heads =
      extents::kQueries(*config.model, layer) + extents::kKeys(*config.model, layer);
  return 2 * d * heads + 3 * d * layer.d_ff;
}

uint64_t weight_count(const Config& config) {
  const uint64_t n_tables = has_flag(config, format::kTiedEmbedding) ? 1 : 2;
  return config.model->n_layers * layer_weight_count(config) +
         n_tables * config.model->d_model * config.model->vocab_size;
}

uint64_t self_text_bytes(const Config& config, uint32_t n_tokens) {
  const uint64_t d = config.model->d_model;
  const format::LayerKind& layer = config.kinds.front();
  const uint64_t kv = extents::kKeys(*config.model, layer);
  const uint64_t halves =
      config.model->n_layers * (layer_weight_count(config) + n_tokens * 2 * kv) +
      d * config.model->vocab_size;
  return sizeof(uint16_t) * halves +
         sizeof(float) * sequence_count(config, n_tokens) *
             (config.model->vocab_size + 2 * uint64_t{layer.d_ff} + 4 * d);
}

void refuse_int4_sources(const TensorPlan& plan, const std::string& options) {
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.source == nullptr || tensor.source->int4_group() == 0) continue;
    throw ProgramError(ExitCode::kInvalidInput,
                       tensor.source->path().string() + ": tensor " + tensor.source->name() +
                           " is int4 already, and would be rounded anew; leave out " + options +
                           " to keep its codes");
  }
}

TokenSequences calibration_text(const std::optional<std::filesystem::path>& file, uint32_t n_tokens,
                                const FloatDecoder& decoder, const PlannedWeights& weights,
                                hosted::ThreadPool* pool, Progress* progress) {
  const Config& config = decoder.config();
  const size_t length = sequence_length(config, n_tokens);
  if (file) return read_token_file(*file, config.model->vocab_size, length, n_tokens);
  size_t n_done = 0;
  progress->start(size_t{n_tokens});
  const auto advance = [&](size_t done, size_t) {
    progress->advance(done - n_done, "the model writes text to be calibrated with");
    n_done = done;
  };
  TokenSequences text = write_self_text(
      decoder, weights,
      {sequence_count(config, n_tokens), length, kCalibrationTemperature, kCalibrationSeed}, pool,
      advance);
  progress->finish();
  return text;
}

}  // namespace cria::converter
