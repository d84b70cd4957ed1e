#include "converter/calibration/calibration_text.h"

#include <algorithm>

#include "converter/calibration/calibration_wish.h"
#include "converter/calibration/self_text.h"
#include "converter/error.h"

namespace cria::converter {

size_t sequence_length(const format::ModelConfig& config, uint32_t n_tokens) {
  return std::min({kCalibrationLength, size_t{config.max_context},
                   std::max<size_t>(2, n_tokens / kCalibrationSequences)});
}

size_t sequence_count(const format::ModelConfig& config, uint32_t n_tokens) {
  return std::max(kCalibrationSequences, n_tokens / sequence_length(config, n_tokens));
}

uint64_t layer_weight_count(const format::ModelConfig& config) {
  const uint64_t d = config.d_model;
  const uint64_t heads = uint64_t{config.n_heads + config.n_kv_heads} * config.head_dim;
  return 2 * d * heads + 3 * d * config.d_ff;
}

uint64_t weight_count(const format::ModelConfig& config) {
  const uint64_t n_tables = (config.flags & format::kTiedEmbedding) != 0 ? 1 : 2;
  return config.n_layers * layer_weight_count(config) +
         n_tables * config.d_model * config.vocab_size;
}

uint64_t self_text_bytes(const format::ModelConfig& config, uint32_t n_tokens) {
  const uint64_t d = config.d_model;
  const uint64_t kv = uint64_t{config.n_kv_heads} * config.head_dim;
  const uint64_t halves =
      config.n_layers * (layer_weight_count(config) + n_tokens * 2 * kv) + d * config.vocab_size;
  return sizeof(uint16_t) * halves + sizeof(float) * sequence_count(config, n_tokens) *
                                         (config.vocab_size + 2 * uint64_t{config.d_ff} + 4 * d);
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
  const format::ModelConfig& config = decoder.config();
  const size_t length = sequence_length(config, n_tokens);
  if (file) return read_token_file(*file, config.vocab_size, length, n_tokens);
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
