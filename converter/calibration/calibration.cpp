#include "converter/calibration/calibration.h"

#include <algorithm>
#include <cmath>

#include "converter/calibration/calibration_text.h"
#include "converter/calibration/weight_counts.h"
#include "platforms/hosted/base/clock.h"

namespace cria::converter {
namespace {

// Chosen by measurement (docs/quantization.md).
constexpr RoundingSettings kGptqSettings = {{true, 3}, 0.05f, 1.0f, true};
constexpr RoundingSettings kWeightedSettings = {{false, 0}, 0.05f, 0.0f, false};

std::string time_text(double seconds) {
  constexpr double kMinute = 60;
  if (seconds < kMinute) return std::to_string(std::lround(seconds)) + " s";
  return std::to_string(std::lround(seconds / kMinute)) + " min";
}

}  // namespace

uint32_t calibration_tokens(const Config& config, const CalibrationRequest& request) {
  if (request.n_tokens) return *request.n_tokens;
  return count_weights(config).all > kManyWeights ? kCalibrationTokensOfMany : kCalibrationTokens;
}

uint64_t calibration_bytes(const Config& config, const CalibrationRequest& request,
                           size_t n_threads) {
  constexpr uint64_t kProgram = 32 << 20;  // the process and buffers
  const WeightCounts weights = count_weights(config);
  const uint32_t n_tokens = calibration_tokens(config, request);
  const SelfTextRequest text = self_text_request(config, n_tokens);
  const size_t n = text.n_sequences * text.n_tokens;
  const uint64_t d = config.model->d_model;
  const FloatModel::Rooms rooms = {text.n_sequences, text.n_tokens, n, KvFormat::kF32, false};
  // While sums become a basis; and that of the narrow ones, with what targets are found by.
  const uint64_t squares = std::max(4 * weights.widest * weights.widest, 5 * d * d);
  // The difference of both residual streams, and a block's inputs of the float model. With
  // per-layer embeddings also both embedded tokens, and the codes that layers project them with.
  const uint64_t per_layer = config.model->per_layer_width != 0 ? 1 : 0;
  const uint64_t rows = n * (d + weights.inputs_of_block + per_layer * 2 * d);
  const uint64_t projections =
      per_layer * d * config.model->per_layer_width * config.model->n_layers;
  // A matrix, its targets on their way, its values rounded both ways; and one that was before it.
  // Of the output layer a part, the outputs of held-out rows, and what goes into it of both models.
  const uint64_t part = std::min<uint64_t>(CalibratedRounding::kPartRows, config.model->vocab_size);
  const uint64_t held_out = n / CalibratedRounding::kHeldOutOneIn;
  const uint64_t matrices =
      std::max(8 * weights.largest_matrix, 8 * part * d + 3 * part * held_out + 2 * n * d);
  const uint64_t codes = weights.largest_layer + weights.largest_layer / 16;
  const uint64_t rounding = kProgram + FloatModel::bytes(config, rooms, n_threads) +
                            2 * FloatModel::stream_bytes(config, rooms) +
                            sizeof(float) * (rows + squares + matrices) + codes + projections +
                            2 * d * config.model->vocab_size;
  if (request.file) return rounding;
  return std::max(rounding, kProgram + self_text_bytes(config, text, n_threads));
}

Calibration::Calibration(const CalibrationRequest& request, const Config& config,
                         std::span<const float> rope, const TensorPlan& plan,
                         hosted::ThreadPool* pool, Progress* progress)
    : config_(config),
      progress_(progress),
      weights_(plan, rope, pool),
      n_tokens_(calibration_tokens(config, request)) {
  refuse_int4_sources(plan, "--method gptq and --calibration");
  const TokenSequences sequences =
      calibration_text(request.file, n_tokens_, config, weights_, pool, progress);
  rounding_.emplace(config, weights_, sequences,
                    request.feedback ? kGptqSettings : kWeightedSettings, pool);
  summary_ = {request.file ? request.file->filename().string() : "self",
              request.file ? std::nullopt : std::optional(kCalibrationSeed), token_count(sequences),
              rounding_->n_held_out()};
}

const RoundedRows* Calibration::rounded(const TensorSpec& spec) {
  if (start_seconds_ == 0) start_seconds_ = hosted::monotonic_seconds();
  progress_->advance(0, state());
  return rounding_->rounded(spec);
}

std::optional<RoundingOutcome> Calibration::outcome(const TensorSpec& spec) const {
  return rounding_->outcome(spec);
}

std::string Calibration::state() const {
  const uint32_t done = rounding_->n_layers_done();
  const std::string text = "calibrating layer " +
                           std::to_string(std::min(done + 1, config_.model->n_layers)) + " of " +
                           std::to_string(config_.model->n_layers);
  if (done == 0) return text;
  const double elapsed = hosted::monotonic_seconds() - start_seconds_;
  return text + ", " + time_text(elapsed / done * (config_.model->n_layers - done)) + " left";
}

}  // namespace cria::converter
