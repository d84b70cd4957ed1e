#include "converter/calibration/mixed_formats.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>

#include "converter/calibration/calibration_text.h"
#include "converter/calibration/format_choice.h"
#include "converter/calibration/output_divergence.h"
#include "converter/calibration/rounded_values.h"
#include "converter/calibration/weight_counts.h"
#include "converter/error.h"

namespace cria::converter {
namespace {

using format::NumberFormat;
using format::TensorRole;

constexpr double kBitsOfByte = 8;
constexpr uint32_t kMostTokens = 2048;
constexpr uint32_t kLeastTokens = 256;
constexpr uint64_t kMostLogits = uint64_t{1} << 26;     // of the float model, all in memory
constexpr uint64_t kMostProducts = 30'000'000'000'000;  // multiply-adds, where tokens allow

MatrixFormat as_requested(const MixedRequest& request, MatrixFormat f) {
  return {f.number_format == NumberFormat::kInt4 ? request.four_bits : f.number_format,
          f.group_size};
}

TensorSpec spec_in(const Config& config, const MixedRequest& request, uint32_t index,
                   MatrixFormat f) {
  TensorSpec spec = tensor_spec(config, index, f);
  spec.has_signed_scales =
      f.number_format == request.four_bits && request.scales == ScaleSigns::kBoth;
  return spec;
}

// The formats that a tensor may have; a vector one that says nothing.
std::vector<MatrixFormat> formats_of(const MixedRequest& request, uint32_t index) {
  if (!request.fixed.empty() && request.fixed[index]) return {*request.fixed[index]};
  std::vector<MatrixFormat> formats;
  for (const MatrixFormat& f : kMixedFormats) {
    // Positive scales are requested where XNNPACK is to run the model, which has no int8g32.
    const bool is_exacts = f.number_format == NumberFormat::kInt8G32;
    if (is_exacts && request.scales == ScaleSigns::kPositive) continue;
    formats.push_back(as_requested(request, f));
  }
  return formats;
}

bool has_choice(const MixedRequest& request, const TensorSpec& spec, uint32_t index) {
  return spec.form == TensorForm::kMatrix && formats_of(request, index).size() > 1;
}

struct MatrixSums {
  uint64_t bytes = 0;
  uint64_t n_weights = 0;
};

MatrixSums sums_of(const Config& config, const std::vector<MatrixFormat>& formats) {
  MatrixSums sums;
  for (uint32_t i = 0; i < formats.size(); ++i) {
    const TensorSpec spec = tensor_spec(config, i, formats[i]);
    if (spec.form != TensorForm::kMatrix) continue;
    sums.bytes += tensor_bytes(spec);
    sums.n_weights += uint64_t{spec.n_matrices} * spec.shape.rows * spec.shape.cols;
  }
  return sums;
}

std::string bits_text(double bits, double (*round)(double)) {
  constexpr double kHundred = 100;
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", round(bits * kHundred) / kHundred);
  return text;
}

}  // namespace

double bits_of_matrices(const Config& config, const std::vector<MatrixFormat>& formats) {
  const MatrixSums sums = sums_of(config, formats);
  return kBitsOfByte * static_cast<double>(sums.bytes) / static_cast<double>(sums.n_weights);
}

std::vector<MatrixFormat> smallest_formats(const Config& config, const MixedRequest& request) {
  std::vector<MatrixFormat> smallest;
  for (uint32_t i = 0; i < tensor_count(config); ++i) {
    const std::vector<MatrixFormat> formats = formats_of(request, i);
    const auto bytes = [&](MatrixFormat f) { return tensor_bytes(tensor_spec(config, i, f)); };
    smallest.push_back(
        *std::min_element(formats.begin(), formats.end(),
                          [&](MatrixFormat a, MatrixFormat b) { return bytes(a) < bytes(b); }));
  }
  return smallest;
}

std::vector<MatrixFormat> finest_formats(const Config& config, const MixedRequest& request) {
  std::vector<MatrixFormat> finest;
  for (uint32_t i = 0; i < tensor_count(config); ++i) {
    finest.push_back(formats_of(request, i).back());
  }
  return finest;
}

void check_bits(const Config& config, const MixedRequest& request) {
  const double least = bits_of_matrices(config, smallest_formats(config, request));
  const double most = bits_of_matrices(config, finest_formats(config, request));
  if (least == most) {
    throw ProgramError(
        ExitCode::kUsage,
        "--bits has nothing to choose: --weights-of or trained codes give every matrix "
        "its format");
  }
  if (request.bits >= least && request.bits <= most) return;
  throw ProgramError(ExitCode::kUsage, "--bits: this model's matrices can have " +
                                           bits_text(least, std::ceil) + " to " +
                                           bits_text(most, std::floor) +
                                           " bits a weight; give a number of these");
}

uint32_t divergence_tokens(const Config& config) {
  // A matrix's stream goes through half of the layers, on the average, and an output layer; those
  // of the embedding and of the float model through all.
  const WeightCounts weights = count_weights(config);
  const uint64_t table = uint64_t{config.model->d_model} * config.model->vocab_size;
  const uint64_t products =
      (weights.n_matrices + 4) * weights.read_in_layers / 2 + (weights.n_matrices + 2) * table;
  const uint64_t most = std::min({uint64_t{kMostTokens}, kMostLogits / config.model->vocab_size,
                                  kMostProducts / std::max<uint64_t>(products, 1)});
  return std::max(static_cast<uint32_t>(most), kLeastTokens);
}

uint64_t divergence_bytes(const Config& config, const MixedRequest& request, size_t n_threads) {
  constexpr uint64_t kProgram = 32 << 20;  // the process and buffers
  const WeightCounts weights = count_weights(config);
  const SelfTextRequest text = self_text_request(config, divergence_tokens(config));
  const size_t n = text.n_sequences * text.n_tokens;
  const uint64_t d = config.model->d_model;
  const uint64_t vocab = config.model->vocab_size;
  const FloatModel::Rooms rooms = {text.n_sequences, text.n_tokens, n, KvFormat::kF32, false};
  const uint64_t stream = FloatModel::stream_bytes(config, rooms);
  const uint64_t streams = std::min((weights.n_matrices + 2) * stream,
                                    std::max<uint64_t>(OutputDivergence::kStreamBytes, stream));
  // Rows of a table on their way, and rounded.
  const uint64_t parts =
      sizeof(float) * 2 * OutputDivergence::kPartRows * std::max(d, weights.widest);
  // A layer's matrices, and one of them rounded.
  const uint64_t layer = sizeof(float) * (weights.largest_layer + weights.largest_matrix);
  const uint64_t rows = std::max<uint64_t>(OutputDivergence::kLogitBytes, 16 * vocab * 4);
  const uint64_t output = sizeof(float) * vocab * d + 2 * rows;
  const uint64_t measuring = kProgram + parts + streams + 2 * stream + sizeof(float) * n * vocab +
                             FloatModel::bytes(config, rooms, n_threads) + std::max(layer, output);
  if (request.text) return measuring;
  return std::max(measuring, kProgram + self_text_bytes(config, text, n_threads));
}

FormatChoice choose_mixed_formats(const MixedRequest& request, const Config& config,
                                  std::span<const float> rope, const TensorPlan& plan,
                                  hosted::ThreadPool* pool, Progress* progress) {
  refuse_int4_sources(plan, "--bits");
  const PlannedWeights weights(plan, rope, pool);
  const TokenSequences text =
      calibration_text(request.text, divergence_tokens(config), config, weights, pool, progress);

  FormatChoice choice;
  choice.bits_asked = request.bits;
  choice.text = request.text ? request.text->filename().string() : "self";
  if (!request.text) choice.seed = kCalibrationSeed;
  choice.n_tokens = token_count(text);
  choice.formats = smallest_formats(config, request);
  choice.divergences.resize(choice.formats.size());

  std::vector<uint32_t> indices;
  std::vector<TensorSpec> measured;
  for (uint32_t i = 0; i < choice.formats.size(); ++i) {
    const TensorSpec spec = spec_in(config, request, i, as_requested(request, kMeasuredFormat));
    if (!has_choice(request, spec, i)) continue;
    indices.push_back(i);
    measured.push_back(spec);
  }
  size_t n_done = 0;
  OutputDivergence output(config, weights, text, request.method, pool);
  const std::vector<double> found = output.measure(measured, [&](size_t done, size_t all) {
    if (n_done == 0) progress->start(all);
    progress->advance(done - n_done, "what the output suffers from each matrix");
    n_done = done;
  });
  if (n_done != 0) progress->finish();

  // What is not chosen takes its share of the bytes.
  const MatrixSums all = sums_of(config, choice.formats);
  auto most_bytes =
      static_cast<uint64_t>(request.bits * static_cast<double>(all.n_weights) / kBitsOfByte);
  most_bytes -= all.bytes;
  std::vector<std::vector<FormatPrice>> prices;
  for (size_t k = 0; k < indices.size(); ++k) {
    most_bytes += tensor_bytes(tensor_spec(config, indices[k], choice.formats[indices[k]]));
    const double base = rounding_error(pool, plan.tensors[indices[k]], measured[k], request.method);
    std::vector<FormatPrice> of_matrix;
    for (const MatrixFormat& f : formats_of(request, indices[k])) {
      const TensorSpec spec = spec_in(config, request, indices[k], f);
      const double error =
          f == format_of(measured[k].shape)
              ? base
              : rounding_error(pool, plan.tensors[indices[k]], spec, request.method);
      // A matrix that loses nothing in the measured format loses nothing that is known of.
      of_matrix.push_back({tensor_bytes(spec), base > 0 ? found[k] * (error / base) : 0});
    }
    prices.push_back(std::move(of_matrix));
  }
  const std::vector<size_t> chosen = choose_prices(prices, most_bytes);
  for (size_t k = 0; k < indices.size(); ++k) {
    choice.formats[indices[k]] = formats_of(request, indices[k])[chosen[k]];
    choice.divergences[indices[k]] = {found[k], prices[k][chosen[k]].divergence};
  }
  choice.bits = bits_of_matrices(config, choice.formats);
  return choice;
}

}  // namespace cria::converter
