#include "converter/calibration/calibration.h"

#include <algorithm>
#include <cmath>

#include "converter/calibration/self_text.h"
#include "converter/error.h"
#include "platforms/hosted/base/clock.h"

namespace cria::converter {
namespace {

// Chosen by measurement (docs/quantization.md).
constexpr RoundingSettings kGptqSettings = {{true, 3}, 0.05f, 1.0f, true};
constexpr RoundingSettings kWeightedSettings = {{false, 0}, 0.05f, 0.0f, false};

size_t sequence_length(const format::ModelConfig& config, uint32_t n_tokens) {
  return std::min({kCalibrationLength, size_t{config.max_context},
                   std::max<size_t>(2, n_tokens / kCalibrationSequences)});
}

size_t sequence_count(const format::ModelConfig& config, uint32_t n_tokens) {
  return std::max(kCalibrationSequences, n_tokens / sequence_length(config, n_tokens));
}

// Every parameter but norms and biases.
uint64_t weight_count(const format::ModelConfig& config) {
  const uint64_t d = config.d_model;
  const uint64_t heads = uint64_t{config.n_heads + config.n_kv_heads} * config.head_dim;
  const uint64_t n_tables = (config.flags & format::kTiedEmbedding) != 0 ? 1 : 2;
  return config.n_layers * (2 * d * heads + 3 * d * config.d_ff) + n_tables * d * config.vocab_size;
}

void check_sources(const TensorPlan& plan) {
  for (const PlannedTensor& tensor : plan.tensors) {
    if (tensor.source == nullptr || tensor.source->int4_group() == 0) continue;
    throw ProgramError(ExitCode::kInvalidInput,
                       tensor.source->path().string() + ": tensor " + tensor.source->name() +
                           " is int4 already, and calibration would round it anew; leave out "
                           "--method gptq and --calibration to keep its codes");
  }
}

std::string time_text(double seconds) {
  constexpr double kMinute = 60;
  if (seconds < kMinute) return std::to_string(std::lround(seconds)) + " s";
  return std::to_string(std::lround(seconds / kMinute)) + " min";
}

}  // namespace

uint32_t calibration_tokens(const format::ModelConfig& config, const CalibrationWish& wish) {
  if (wish.n_tokens) return *wish.n_tokens;
  return weight_count(config) > kManyWeights ? kCalibrationTokensOfMany : kCalibrationTokens;
}

uint64_t calibration_bytes(const format::ModelConfig& config, const CalibrationWish& wish) {
  constexpr uint64_t kProgram = 32 << 20;  // the process and buffers
  const uint64_t n = calibration_tokens(config, wish);
  const uint64_t d = config.d_model;
  const uint64_t q = uint64_t{config.n_heads} * config.head_dim;
  const uint64_t kv = uint64_t{config.n_kv_heads} * config.head_dim;
  const uint64_t ff = config.d_ff;
  const uint64_t layer = d * (q + kv) * 2 + d * ff * 3;
  const uint64_t table = d * config.vocab_size;
  const uint64_t widest = std::max({d, q, ff});
  // While sums become a basis; and that of the narrow ones, with what targets are found by.
  const uint64_t squares = std::max(4 * widest * widest, 5 * d * d);
  // Residual streams and inputs of both models, and what comes of them.
  const uint64_t rows = n * (4 * d + std::max(3 * q + 2 * kv, 3 * ff));
  // A matrix, its targets on their way, its values rounded both ways; and one that was before it.
  const uint64_t matrices = 8 * d * std::max(q, ff);
  const uint64_t rounding = kProgram + sizeof(float) * (rows + squares + matrices) + 2 * table;
  if (wish.file) return rounding;
  const uint64_t n_sequences = sequence_count(config, static_cast<uint32_t>(n));
  const uint64_t halves = config.n_layers * (layer + n * 2 * kv) + table;
  const uint64_t writing = sizeof(uint16_t) * halves +
                           sizeof(float) * n_sequences * (config.vocab_size + 2 * ff + 4 * d);
  return std::max(rounding, writing);
}

Calibration::Calibration(const CalibrationWish& wish, const format::ModelConfig& config,
                         const Rope& rope, const TensorPlan& plan, hosted::ThreadPool* pool,
                         Progress* progress)
    : config_(config),
      pool_(pool),
      progress_(progress),
      weights_(plan, pool),
      n_tokens_(calibration_tokens(config, wish)),
      decoder_(config, rope, sequence_length(config, n_tokens_), pool) {
  check_sources(plan);
  const TokenSequences sequences = tokens(wish);
  rounding_.emplace(decoder_, weights_, sequences,
                    wish.feedback ? kGptqSettings : kWeightedSettings, pool);
  summary_ = {wish.file ? wish.file->filename().string() : "self",
              wish.file ? std::nullopt : std::optional(kCalibrationSeed), token_count(sequences),
              rounding_->n_held_out()};
}

TokenSequences Calibration::tokens(const CalibrationWish& wish) {
  const size_t length = sequence_length(config_, n_tokens_);
  if (wish.file) return read_token_file(*wish.file, config_.vocab_size, length, n_tokens_);
  size_t n_done = 0;
  progress_->start(size_t{n_tokens_});
  const auto advance = [&](size_t done, size_t) {
    progress_->advance(done - n_done, "the model writes text to be calibrated with");
    n_done = done;
  };
  TokenSequences text = write_self_text(
      decoder_, weights_,
      {sequence_count(config_, n_tokens_), length, kCalibrationTemperature, kCalibrationSeed},
      pool_, advance);
  progress_->finish();
  return text;
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
                           std::to_string(std::min(done + 1, config_.n_layers)) + " of " +
                           std::to_string(config_.n_layers);
  if (done == 0) return text;
  const double elapsed = hosted::monotonic_seconds() - start_seconds_;
  return text + ", " + time_text(elapsed / done * (config_.n_layers - done)) + " left";
}

}  // namespace cria::converter
