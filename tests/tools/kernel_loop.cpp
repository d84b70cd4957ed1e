// Runs one integer matrix product a number of times, for a counter of instructions: the difference
// between two numbers of runs is what one costs.
//
//   kernel_loop <ISA bit> <4, nl, 8 or 8g> <rows of x> <runs>
//
// W is 1024 x 2048, int4, int4nl or int8g32 with groups of 32, or int8; its codes do not matter to
// the count.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "quant/tile16.h"
#include "runtime/kernels/kernels.h"

int main(int argc, char** argv) {
  using namespace cria;
  if (argc != 5) {
    std::fprintf(stderr, "usage: kernel_loop <ISA bit> <4, nl, 8 or 8g> <rows of x> <runs>\n");
    return 2;
  }
  const std::string_view kind = argv[2];
  const auto n_rows = static_cast<size_t>(std::atoi(argv[3]));
  const int n_runs = std::atoi(argv[4]);
  Kernels kernels;
  if (!select_kernels(1u << std::atoi(argv[1]), &kernels)) return 1;
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
