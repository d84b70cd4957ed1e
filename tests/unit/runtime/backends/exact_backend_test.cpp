#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <vector>

#include "quant/quantize.h"
#include "runtime/backends/backend.h"
#include "tests/support/long_under_asan.h"
#include "tests/support/test_configs.h"
#include "tests/support/thread_per_task.h"

namespace cria {
namespace {

using format::NumberFormat;

// A matrix whose weights are all ones, exactly: code 1, scale 1.
struct Ones {
  explicit Ones(const MatrixShape& shape)
      : codes(static_cast<size_t>(code_plane_bytes(shape))),
        scales(static_cast<size_t>(scale_plane_bytes(shape))) {
    const size_t padded = padded_cols(shape);
    for (size_t tile = 0; tile < tile_count(shape.rows); ++tile) {
      uint8_t* out = codes.data() + tile * tile_code_bytes(shape);
      uint8_t* out_scales = scales.data() + tile * tile_scale_bytes(shape);
      const std::vector<int8_t> ones(16 * padded, 1);
      if (shape.number_format == NumberFormat::kInt4) {
        const std::vector<uint16_t> one(16 * padded / shape.group_size, 0x3f80);
        pack_int4_tile(shape, ones.data(), one.data(), 16, out, out_scales);
      } else if (shape.number_format == NumberFormat::kInt8G32) {
        const std::vector<uint16_t> one(16 * padded / shape.group_size, 0x3f80);
        pack_int8g32_tile(shape, ones.data(), one.data(), 16, out, out_scales);
      } else if (shape.number_format == NumberFormat::kInt8) {
        const std::vector<float> one(16, 1.0f);
        pack_int8_tile(shape, ones.data(), one.data(), 16, out, out_scales);
      } else {
        pack_float_tile(shape, std::vector<float>(size_t{16} * shape.cols, 1.0f).data(), 16, out);
      }
    }
    matrix.shape = shape;
    matrix.codes = codes.data();
    matrix.scales = scales.data();
  }
  Tensor matrix = {};
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
};

// It keeps the file's layout, and nothing else.
TEST(ExactBackend, NeedsNoMemoryOfItsOwn) {
  ConfigParts config = test::small_config(NumberFormat::kInt4, 32);
  BackendNeeds needs;
  std::memset(&needs, 0xee, sizeof needs);
  ASSERT_EQ(kExactBackend.needs(config.view(), 3, 64, &needs), Status::kOk);
  EXPECT_TRUE(needs.keeps_tile16);
  EXPECT_EQ(needs.model_bytes, 0u);
  EXPECT_EQ(needs.workspace_bytes, 0u);
  EXPECT_EQ(needs.step_bytes, 0u);
  EXPECT_EQ(needs.load_bytes, 0u);
}

// Matrices that share an input may pad it differently; each must see it as it wants.
TEST(ExactBackend, MatricesOfDifferentPaddingAndKindShareOneInput) {
  constexpr uint32_t kCols = 40;
  constexpr size_t kRows = 2;
  const MatrixShape shapes[] = {
      {16, kCols, NumberFormat::kInt4, 32},    {16, kCols, NumberFormat::kInt4, 128},
      {16, kCols, NumberFormat::kF32, 0},      {32, kCols, NumberFormat::kInt8, 0},
      {16, kCols, NumberFormat::kInt8G32, 32}, {16, kCols, NumberFormat::kInt4, 64}};
  std::vector<float> x(kRows * kCols);
  for (size_t i = 0; i < x.size(); ++i) x[i] = i < kCols ? 127.0f : -127.0f;
  std::vector<int8_t> quantized(kRows * 128);
  std::vector<float> scales(kRows * 4);
  std::vector<int32_t> sums(kRows * 4);
  const LinearScratch scratch = {quantized.data(), scales.data(), sums.data(), nullptr};
  Kernels kernels;
  ASSERT_TRUE(select_kernels(0, &kernels));
  for (const uint32_t n_threads : {1u, 3u}) {
    const Threads threads = {n_threads, n_threads > 1 ? test::thread_per_task : nullptr, nullptr};
    const LinearTools tools = {kernels, threads, scratch, nullptr};
    std::vector<Ones> matrices;
    std::vector<std::vector<float>> y;
    for (const MatrixShape& shape : shapes) {
      matrices.emplace_back(shape);
      y.emplace_back(kRows * shape.rows, 0.0f);
    }
    std::vector<LinearCall> calls;
    for (size_t i = 0; i < matrices.size(); ++i) {
      matrices[i].matrix.codes = matrices[i].codes.data();
      matrices[i].matrix.scales = matrices[i].scales.data();
      calls.push_back({&matrices[i].matrix, y[i].data()});
    }
    ASSERT_EQ(kExactBackend.linear(tools, x.data(), kRows, calls), Status::kOk);
    for (size_t m = 0; m < y.size(); ++m) {
      for (size_t i = 0; i < y[m].size(); ++i) {
        ASSERT_EQ(y[m][i], (i < shapes[m].rows ? 127.0f : -127.0f) * kCols) << m << " " << i;
      }
    }
  }
}

// Counts how often each tile of a matrix of more than one is multiplied, and by how many calls.
std::array<std::atomic<int>, 100> tile_counts;
std::atomic<int> n_products;
std::atomic<int> n_odd_begins;

void count_tiles(const MatrixShape& shape, size_t first_tile, size_t last_tile) {
  if (shape.rows == 16) return;
  ++n_products;
  if (first_tile % kMostTilesTogether != 0) ++n_odd_begins;
  for (size_t i = first_tile; i < last_tile; ++i) ++tile_counts[i];
}

void count_int8(const MatrixShape& shape, const uint8_t* codes, const uint8_t* scales,
                size_t first_tile, size_t last_tile, const QuantizedRows& x, float* y,
                size_t y_stride) {
  kScalarKernels.matmul_q8_q8(shape, codes, scales, first_tile, last_tile, x, y, y_stride);
  count_tiles(shape, first_tile, last_tile);
}

void count_f32(const MatrixShape& shape, const uint8_t* codes, size_t first_tile, size_t last_tile,
               const float* x, size_t n_rows, float* y, size_t y_stride) {
  kScalarKernels.matmul_f32_f32(shape, codes, first_tile, last_tile, x, n_rows, y, y_stride);
  count_tiles(shape, first_tile, last_tile);
}

struct Parts {
  NumberFormat number_format;
  uint32_t cols;                // so that a tile has 32 KB
  size_t rows_of_single_tiles;  // what kernels take one by one
};

class PartsOfMatrices : public testing::TestWithParam<Parts> {};

// A thread's stretch is one part, some, or as many as there may be; many rows have no stretches.
TEST_P(PartsOfMatrices, MultiplyEachTileOnceAndBreakUpNoPair) {
  CRIA_SKIP_UNDER_ASAN();
  constexpr size_t kTileBytes = size_t{32} << 10;
  constexpr size_t kMostRows = 16;
  const auto [number_format, cols, rows_of_single_tiles] = GetParam();
  std::vector<float> x(cols * kMostRows, 127.0f);
  std::vector<int8_t> quantized(cols * kMostRows);
  std::vector<float> scales(cols / 32 * kMostRows);
  std::vector<int32_t> sums(cols / 32 * kMostRows);
  const LinearScratch scratch = {quantized.data(), scales.data(), sums.data(), nullptr};
  Kernels kernels;
  ASSERT_TRUE(select_kernels(0, &kernels));
  kernels.matmul_q8_q8 = count_int8;
  kernels.matmul_f32_f32 = count_f32;
  for (const size_t n_rows : {1u, 2u, 6u, 7u, 8u, 9u, 15u, 16u}) {
    for (const uint32_t n_tiles : {1u, 4u, 22u, 24u, 34u, 100u}) {
      const Ones ones({n_tiles * 16 - 3, cols, number_format, 0});
      const Ones more({16, cols, number_format, 0});
      ASSERT_EQ(tile_code_bytes(ones.matrix.shape), kTileBytes);
      for (const uint32_t n_threads : {1u, 2u, 3u, 8u, 65u}) {
        SCOPED_TRACE(testing::Message()
                     << n_rows << " rows, " << n_tiles << " tiles, " << n_threads << " threads");
        const Threads threads = {n_threads, n_threads > 1 ? test::thread_per_task : nullptr,
                                 nullptr};
        const LinearTools tools = {kernels, threads, scratch, nullptr};
        std::vector<float> y(ones.matrix.shape.rows * n_rows, -1.0f);
        std::vector<float> y_more(16 * n_rows, -1.0f);
        const std::vector<LinearCall> calls = {{&ones.matrix, y.data()},
                                               {&more.matrix, y_more.data()}};
        for (std::atomic<int>& count : tile_counts) count = 0;
        n_products = 0;
        n_odd_begins = 0;
        ASSERT_EQ(kExactBackend.linear(tools, x.data(), n_rows, calls), Status::kOk);
        for (uint32_t i = 0; i < 100; ++i) {
          EXPECT_EQ(tile_counts[i], i < n_tiles ? 1 : 0) << i;
        }
        // Of a stretch, parts of 64 KB at least, 16 a thread at most; else eight a thread. They
        // begin where kernels take two tiles, if a thread has eight tiles at least.
        const size_t n_all = n_tiles + 1;
        const size_t n_parts = std::min<size_t>(16, n_all * kTileBytes / n_threads >> 16);
        if (n_rows == kMostRows) {
          const size_t n_eighths = (n_all + n_threads * 8 - 1) / (n_threads * 8);
          const size_t n_part = (n_eighths + 1) / 2 * 2;
          if (n_threads > 1) {
            const int n_most = static_cast<int>((n_all + n_part - 1) / n_part);
            EXPECT_LE(n_products, n_most);
            EXPECT_GE(n_products, n_most - 1);  // the last may be of the other matrix alone
          }
          EXPECT_EQ(n_odd_begins, 0);
        } else if (n_threads > 1 && n_parts > 1) {
          const int n_most = static_cast<int>(n_threads * n_parts);
          EXPECT_LE(n_products, n_most);
          EXPECT_GE(n_products, n_most - 1);
          EXPECT_EQ(n_odd_begins == 0, n_rows > rows_of_single_tiles && n_all >= 8 * n_threads)
              << n_odd_begins;
        } else if (n_threads == 65 && n_tiles == 4) {
          EXPECT_GT(n_odd_begins, 0);  // of a small matrix shares are equal to the tile
        }
        EXPECT_EQ(y, std::vector<float>(y.size(), 127.0f * static_cast<float>(cols)));
        EXPECT_EQ(y_more, std::vector<float>(y_more.size(), 127.0f * static_cast<float>(cols)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ExactBackend, PartsOfMatrices,
                         testing::Values(Parts{NumberFormat::kInt8, 2048, 6},
                                         Parts{NumberFormat::kF32, 512, 1}));

}  // namespace
}  // namespace cria
