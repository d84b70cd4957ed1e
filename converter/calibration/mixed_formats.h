// --bits: a format for each matrix, so that the model's output suffers least at so many bits a
// weight. What the output suffers from each matrix is measured in one format and follows for the
// others by the error of the rounded weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "converter/progress.h"
#include "converter/tensor_plan.h"
#include "platforms/hosted/base/thread_pool.h"
#include "quant/numbers/quantize.h"

namespace cria::converter {

// What a matrix may become, from the fewest bits to the least error. int4 stands for the format of
// four bits that is requested.
inline constexpr MatrixFormat kMixedFormats[] = {
    {format::NumberFormat::kInt4, 128},   {format::NumberFormat::kInt4, 64},
    {format::NumberFormat::kInt4, 32},    {format::NumberFormat::kInt8, 0},
    {format::NumberFormat::kInt8G32, 32},
};
// In which the divergence is measured.
inline constexpr MatrixFormat kMeasuredFormat = {format::NumberFormat::kInt4, 32};

struct MixedRequest {
  double bits;                                // a weight, on the average of all matrices, at most
  format::NumberFormat four_bits;             // kInt4 or kInt4Nl
  ScaleSigns scales;                          // of four bits
  QuantMethod method;                         // by which weights are rounded where this is measured
  std::optional<std::filesystem::path> text;  // token ids; none: the model writes its own text
  // The formats of tensors that have no choice, in the canonical order; empty: all have.
  std::vector<std::optional<MatrixFormat>> fixed;
};

// Bits a weight of all matrices: codes, scales and padding, as they are in memory. Vectors are not
// counted.
[[nodiscard]] double bits_of_matrices(const Config& config,
                                      const std::vector<MatrixFormat>& formats);

// The formats of the fewest bytes, in the canonical order, and those of the least error.
[[nodiscard]] std::vector<MatrixFormat> smallest_formats(const Config& config,
                                                         const MixedRequest& request);
[[nodiscard]] std::vector<MatrixFormat> finest_formats(const Config& config,
                                                       const MixedRequest& request);
// Throws ProgramError (kUsage) for bits that lie below what the smallest formats have or above what
// the finest have.
void check_bits(const Config& config, const MixedRequest& request);

// Tokens that are measured on: fewer for a large model, so that it does not take hours.
[[nodiscard]] uint32_t divergence_tokens(const Config& config);
// Bytes that measuring takes, at most and about.
[[nodiscard]] uint64_t divergence_bytes(const Config& config, const MixedRequest& request,
                                        size_t n_threads);

// What the output suffers from a matrix, in nats a token
// (converter/calibration/output_divergence.h).
struct MatrixDivergence {
  double measured;  // in kMeasuredFormat
  double expected;  // in the format that was chosen
};

struct FormatChoice {
  double bits_asked;
  double bits;
  std::string text;              // "self", or the name of the file without its folder
  std::optional<uint64_t> seed;  // of the model's own text
  size_t n_tokens;
  // Both in the canonical order.
  std::vector<MatrixFormat> formats;
  std::vector<std::optional<MatrixDivergence>> divergences;  // of matrices that had a choice
};

// check_bits has passed. The same for any number of threads. Throws ProgramError.
[[nodiscard]] FormatChoice choose_mixed_formats(const MixedRequest& request, const Config& config,
                                                std::span<const float> rope, const TensorPlan& plan,
                                                hosted::ThreadPool* pool, Progress* progress);

}  // namespace cria::converter
