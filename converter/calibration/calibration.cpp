#include "converter/calibration/calibration.h"

#include <algorithm>
#include <cmath>

#include "converter/calibration/calibration_text.h"
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

uint32_t calibration_tokens(const Config& config, const CalibrationWish& wish) {
  if (wish.n_tokens) return *wish.n_tokens;
  return weight_count(config) > kManyWeights ? kCalibrationTokensOfMany : kCalibrationTokens;
}

const char* not_calibrated(const Config& config) {
  constexpr uint32_t kFlags = format::flag::kMixerNorm | format::flag::kFfnNorm |
                              format::flag::kMixerBias | format::flag::kOutputBias |
                              format::flag::kFfnBias | format::flag::kHeadNorms |
                              format::flag::kGated;
  for (const format::LayerKind& kind : config.kinds) {
    if (kind.mixer == static_cast<uint8_t>(format::Mixer::kLatentAttention)) {
      return "latent attention";
    }
    if (kind.mixer != static_cast<uint8_t>(format::Mixer::kAttention)) return "recurrences";
    if (kind.feed_forward != static_cast<uint8_t>(format::FeedForward::kDense)) return "experts";
    if (kind.norm != static_cast<uint8_t>(format::Norm::kRms)) return "layer norms";
    if (kind.activation != static_cast<uint8_t>(format::Activation::kSilu)) {
      return "activations other than silu";
    }
    if ((kind.flags & ~kFlags) != 0 || !has_flag(kind, format::flag::kGated)) {
      return "variants of attention or of the feed-forward";
    }
  }
  return nullptr;
}

uint64_t calibration_bytes(const Config& config, const CalibrationWish& wish) {
  constexpr uint64_t kProgram = 32 << 20;  // the process and buffers
  const uint64_t n = calibration_tokens(config, wish);
  const uint64_t d = config.model->d_model;
  const format::LayerKind& layer = config.kinds.front();
  const uint64_t q = extents::kQueries(*config.model, layer);
  const uint64_t kv = extents::kKeys(*config.model, layer);
  const uint64_t ff = layer.d_ff;
  const uint64_t table = d * config.model->vocab_size;
  const uint64_t widest = std::max({d, q, ff});
  // While sums become a basis; and that of the narrow ones, with what targets are found by.
  const uint64_t squares = std::max(4 * widest * widest, 5 * d * d);
  // Residual streams and inputs of both models, and what comes of them.
  const uint64_t rows = n * (4 * d + std::max(3 * q + 2 * kv, 3 * ff));
  // A matrix, its targets on their way, its values rounded both ways; and one that was before it.
  const uint64_t matrices = 8 * d * std::max(q, ff);
  const uint64_t rounding = kProgram + sizeof(float) * (rows + squares + matrices) + 2 * table;
  if (wish.file) return rounding;
  return std::max(rounding, self_text_bytes(config, static_cast<uint32_t>(n)));
}

Calibration::Calibration(const CalibrationWish& wish, const Config& config,
                         std::span<const float> rope, const TensorPlan& plan,
                         hosted::ThreadPool* pool, Progress* progress)
    : config_(config),
      progress_(progress),
      weights_(plan, pool),
      n_tokens_(calibration_tokens(config, wish)),
      decoder_(config, rope, sequence_length(config, n_tokens_), pool) {
  refuse_int4_sources(plan, "--method gptq and --calibration");
  const TokenSequences sequences =
      calibration_text(wish.file, n_tokens_, decoder_, weights_, pool, progress);
  rounding_.emplace(decoder_, weights_, sequences,
                    wish.feedback ? kGptqSettings : kWeightedSettings, pool);
  summary_ = {wish.file ? wish.file->filename().string() : "self",
              wish.file ? std::nullopt : std::optional(kCalibrationSeed), token_count(sequences),
              rounding_->n_held_out()};
}

const RoundedRows* Calibration::rounded(const TensorSpec& spec) {
  if (start_seconds_ == 0) start_seconds_ = hosted::monotonic_seconds();
  progress_->advance(0, state());
  return rounding_->rounded(spec);
}

std::optional<RoundingOutcome> Calibration::outcome(const TensorSpec& spec) const {
  const RoundingOutcome* outcome = rounding_->outcome(spec);
  return outcome == nullptr ? std::nullopt : std::optional(*outcome);
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
