// Runs one integer matrix product, or one kernel of attention, a number of times, for a counter of
// instructions: the difference between two numbers of runs is what one costs.
//
//   kernel_loop <ISA bit> <4, nl, 8 or 8g> <rows of x> <runs>
//   kernel_loop <ISA bit> <keys, v8 or v4> <queries> <runs>
//
// with the best kernels of the ISAs up to that bit. W is 1024 x 2048, int4, int4nl or int8g32 with
// groups of 32, or int8; its codes do not matter to the count. Attention is of 64 positions and a
// head of 64: scores, or the sum of values of 8 or 4 bits.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "quant/tile16.h"
#include "runtime/kernels/kernels.h"

namespace cria {
namespace {

constexpr const char* kUsage =
    "usage: kernel_loop <ISA bit> <4, nl, 8, 8g, keys, v8 or v4> <rows of x> <runs>\n";

void attend(const Kernels& kernels, std::string_view kind, size_t n_queries, int n_runs) {
  constexpr size_t kHeadDim = 64;
  constexpr size_t kPositions = 64;
  constexpr size_t kGroups = kHeadDim / kActivationGroup;
  const std::vector<int8_t> codes(kPositions * kHeadDim, 3);
  const std::vector<uint8_t> nibbles(kPositions * kHeadDim / 2, 0x77);
  const std::vector<float> scales(kPositions, 1.0f);
  const std::vector<uint16_t> nibble_scales(kPositions * kGroups, 0x3f80);
  const std::vector<int8_t> q(n_queries * kHeadDim, 3);
  const std::vector<float> q_scales(n_queries * kGroups, 1.0f);
  const std::vector<int32_t> q_sums(n_queries * kGroups, 96);
  const std::vector<float> rescale(n_queries, 0.5f);
  std::vector<float> scores(n_queries * kPositions, 0.25f);
  std::vector<float> out(n_queries * kHeadDim);
  const QuantizedRows queries = {q.data(), q_scales.data(), q_sums.data(), n_queries};
  const WeightRows weights = {scores.data(), kPositions, rescale.data(), n_queries};
  for (int run = 0; run < n_runs; ++run) {
    if (kind == "keys") {
      kernels.scores_q8(queries, kHeadDim, codes.data(), scales.data(), 0.125f, kPositions,
                        scores.data(), kPositions);
    } else if (kind == "v8") {
      kernels.weighted_sum_q8(weights, codes.data(), scales.data(), kPositions, kHeadDim,
                              out.data());
    } else {
      kernels.weighted_sum_q4(weights, nibbles.data(), nibble_scales.data(), kPositions, kHeadDim,
                              out.data());
    }
  }
  std::printf("%s %.9g\n", kernels.isa, static_cast<double>(out[0] + scores[0]));
}

}  // namespace
}  // namespace cria

int main(int argc, char** argv) {
  using namespace cria;
  if (argc != 5) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  const std::string_view kind = argv[2];
  const auto n_rows = static_cast<size_t>(std::atoi(argv[3]));
  const int n_runs = std::atoi(argv[4]);
  Kernels kernels;
  if (!select_kernels((2u << std::atoi(argv[1])) - 1, &kernels)) return 1;
  if (kind == "keys" || kind == "v8" || kind == "v4") {
    attend(kernels, kind, n_rows, n_runs);
    return 0;
  }
  MatrixShape shape = {1024, 2048, format::NumberFormat::kInt8, 0};
  auto kernel = kernels.matmul_q8_q8;
  if (kind == "4") {
    shape = {1024, 2048, format::NumberFormat::kInt4, 32};
    kernel = kernels.matmul_q4_q8;
  } else if (kind == "nl") {
    shape = {1024, 2048, format::NumberFormat::kInt4Nl, 32};
    kernel = kernels.matmul_q4nl_q8;
  } else if (kind == "8g") {
    shape = {1024, 2048, format::NumberFormat::kInt8G32, 32};
    kernel = kernels.matmul_q8g_q8;
  }
  const std::vector<uint8_t> codes(static_cast<size_t>(code_plane_bytes(shape)), 0x77);
  const std::vector<uint8_t> scales(static_cast<size_t>(scale_plane_bytes(shape)), 0x3f);
  const size_t cols = padded_cols(shape);
  const std::vector<int8_t> x(n_rows * cols, 3);
  const std::vector<float> x_scales(n_rows * cols / kActivationGroup, 1.0f);
  const std::vector<int32_t> sums(n_rows * cols / kActivationGroup, 96);
  std::vector<float> y(n_rows * shape.rows);
  const QuantizedRows rows = {x.data(), x_scales.data(), sums.data(), n_rows};
  for (int run = 0; run < n_runs; ++run) {
    kernel(shape, codes.data(), scales.data(), 0, tile_count(shape.rows), rows, y.data(),
           shape.rows);
  }
  std::printf("%s %.9g\n", kernels.isa, static_cast<double>(y[0]));
  return 0;
}
