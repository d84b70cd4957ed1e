#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "quant/numbers/float16.h"
#include "quant/numbers/quantize.h"
#include "runtime/backends/backend.h"
#include "tests/support/long_under_asan.h"
#include "tests/support/random_values.h"
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
      if (has_group_scales(shape.number_format)) {
        const std::vector<uint16_t> one(16 * padded / shape.group_size, 0x3f80);
        pack_group_tile(shape, ones.data(), one.data(), 16, out, out_scales);
      } else if (shape.number_format == NumberFormat::kInt8) {
        const std::vector<float> one(16, 1.0f);
        pack_int8_tile(shape, ones.data(), one.data(), 16, out, out_scales);
      } else {
        pack_float_tile(shape, std::vector<float>(size_t{16} * shape.cols, 1.0f).data(), 16, out);
      }
    }
    tensor.shape = shape;
    tensor.n_matrices = 1;
    tensor.codes = codes.data();
    tensor.scales = scales.data();
  }
  Tensor tensor = {};
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
};

// It keeps the file's layout, and nothing else.
TEST(ExactBackend, NeedsNoMemoryOfItsOwn) {
  ConfigParts parts = test::small_config(NumberFormat::kInt4, 32);
  const Config config = parts.view();
  BackendNeeds needs;
  std::memset(&needs, 0xee, sizeof needs);
  ASSERT_EQ(kExactBackend.needs(config, 3, 64, &needs), Status::kOk);
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
  const Segment all = {0, 0, kRows};
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
      matrices[i].tensor.codes = matrices[i].codes.data();
      matrices[i].tensor.scales = matrices[i].scales.data();
      calls.push_back({&matrices[i].tensor, y[i].data()});
    }
    ASSERT_EQ(kExactBackend.linear(tools, x.data(), {&all, 1}, calls), Status::kOk);
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
  kScalarKernels.products.of[place_of(NumberFormat::kInt8)].codes(shape, codes, scales, first_tile,
                                                                  last_tile, x, y, y_stride);
  count_tiles(shape, first_tile, last_tile);
}

void count_f32(const MatrixShape& shape, const uint8_t* codes, size_t first_tile, size_t last_tile,
               const float* x, size_t n_rows, float* y, size_t y_stride) {
  kScalarKernels.products.of[place_of(NumberFormat::kF32)].floats(
      shape, codes, first_tile, last_tile, x, n_rows, y, y_stride);
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
  kernels.products.of[place_of(NumberFormat::kInt8)].codes = count_int8;
  kernels.products.of[place_of(NumberFormat::kF32)].floats = count_f32;
  for (const size_t n_rows : {1u, 2u, 6u, 7u, 8u, 9u, 15u, 16u}) {
    for (const uint32_t n_tiles : {1u, 4u, 22u, 24u, 34u, 100u}) {
      const Ones ones({n_tiles * 16 - 3, cols, number_format, 0});
      const Ones more({16, cols, number_format, 0});
      ASSERT_EQ(tile_code_bytes(ones.tensor.shape), kTileBytes);
      for (const uint32_t n_threads : {1u, 2u, 3u, 8u, 65u}) {
        SCOPED_TRACE(testing::Message()
                     << n_rows << " rows, " << n_tiles << " tiles, " << n_threads << " threads");
        const Threads threads = {n_threads, n_threads > 1 ? test::thread_per_task : nullptr,
                                 nullptr};
        const LinearTools tools = {kernels, threads, scratch, nullptr};
        std::vector<float> y(ones.tensor.shape.rows * n_rows, -1.0f);
        std::vector<float> y_more(16 * n_rows, -1.0f);
        const std::vector<LinearCall> calls = {{&ones.tensor, y.data()},
                                               {&more.tensor, y_more.data()}};
        const Segment all = {0, 0, static_cast<uint32_t>(n_rows)};
        for (std::atomic<int>& count : tile_counts) count = 0;
        n_products = 0;
        n_odd_begins = 0;
        ASSERT_EQ(kExactBackend.linear(tools, x.data(), {&all, 1}, calls), Status::kOk);
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

// Stacks ------------------------------------------------------------------------------------------

constexpr uint32_t kMatricesOfStack = 3;

// A stack of random matrices: each begins at a tile of its own.
struct Stack {
  Stack(const MatrixShape& shape, uint32_t seed) {
    const size_t code_bytes = static_cast<size_t>(code_plane_bytes(shape));
    const size_t scale_bytes = static_cast<size_t>(scale_plane_bytes(shape));
    codes.resize(kMatricesOfStack * code_bytes);
    scales.resize(kMatricesOfStack * scale_bytes);
    for (uint32_t i = 0; i < kMatricesOfStack; ++i) {
      fill(shape, test::random_values(size_t{shape.rows} * shape.cols, seed + i, 0.1f),
           codes.data() + i * code_bytes, scales.data() + i * scale_bytes);
    }
    tensor = {shape,        kMatricesOfStack, 0,       TensorForm::kMatrix,
              codes.data(), scales.data(),    nullptr, nullptr};
  }

  static void fill(const MatrixShape& shape, const std::vector<float>& values, uint8_t* codes,
                   uint8_t* scales) {
    const size_t padded = padded_cols(shape);
    std::mt19937 random(static_cast<uint32_t>(values.size()) + shape.cols);
    const int most = has_nibbles(shape.number_format) ? 7 : 127;
    for (size_t tile = 0; tile < tile_count(shape.rows); ++tile) {
      const size_t first = tile * kTileRows;
      const size_t n_rows = std::min<size_t>(kTileRows, shape.rows - first);
      uint8_t* const to = codes + tile * tile_code_bytes(shape);
      uint8_t* const scales_to = scales + tile * tile_scale_bytes(shape);
      std::vector<int8_t> in(n_rows * padded, 0);
      for (size_t i = 0; i < n_rows * shape.cols; ++i) {
        const int code = std::uniform_int_distribution<int>(-most, most)(random);
        in[i / shape.cols * padded + i % shape.cols] = static_cast<int8_t>(code);
      }
      const float* const row = values.data() + first * shape.cols;
      const std::vector<float> row_scales(row, row + n_rows);
      std::vector<uint16_t> group_scales(n_rows * padded / 32);
      for (size_t i = 0; i < group_scales.size(); ++i) {
        group_scales[i] = f32_to_bf16(0.01f + 0.001f * static_cast<float>(i % 97));
      }
      switch (shape.number_format) {
        case NumberFormat::kInt4:
        case NumberFormat::kInt4Nl:
        case NumberFormat::kInt8G32:
          pack_group_tile(shape, in.data(), group_scales.data(), n_rows, to, scales_to);
          break;
        case NumberFormat::kInt8:
          pack_int8_tile(shape, in.data(), row_scales.data(), n_rows, to, scales_to);
          break;
        case NumberFormat::kBit1:
        case NumberFormat::kBit2: {
          const int last = (1 << row_of(shape.number_format).code_bits) - 1;
          for (int8_t& code : in) code = static_cast<int8_t>(code & last);
          for (uint16_t& scale : group_scales) scale = f32_to_f16(bf16_to_f32(scale));
          pack_group_tile(shape, in.data(), group_scales.data(), n_rows, to, scales_to);
          break;
        }
        case NumberFormat::kF32:
        case NumberFormat::kF16:
        case NumberFormat::kBf16:
          pack_float_tile(shape, row, n_rows, to);
          break;
      }
    }
  }

  // One matrix of the stack by itself.
  [[nodiscard]] Tensor matrix(uint32_t index) const {
    Tensor one = tensor;
    one.n_matrices = 1;
    one.codes = tensor.codes_of(index);
    one.scales = tensor.scales_of(index);
    return one;
  }

  Tensor tensor = {};
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
};

class Stacks : public testing::TestWithParam<MatrixFormat> {};

// Rows go through the matrices that segments name, in any order, some of them not at all; two
// stacks share an input.
TEST_P(Stacks, GiveEachSegmentTheBitsOfItsMatrixAlone) {
  constexpr uint32_t kCols = 200;
  const MatrixShape shapes[] = {{37, kCols, GetParam().number_format, GetParam().group_size},
                                {50, kCols, GetParam().number_format, GetParam().group_size}};
  const Stack stacks[] = {Stack(shapes[0], 1), Stack(shapes[1], 11)};
  const std::vector<std::vector<Segment>> cases = {
      {{0, 0, 1}, {1, 1, 1}, {2, 2, 1}}, {{2, 0, 5}, {0, 5, 2}, {1, 7, 13}}, {{1, 0, 20}},
      {{0, 0, 18}, {2, 18, 40}},         {{0, 0, 2}, {1, 2, 0}, {2, 2, 3}},  {}};
  constexpr size_t kMostRows = 64;
  constexpr size_t kMostCols = 256;
  std::vector<int8_t> quantized(kMostRows * kMostCols);
  std::vector<float> scales(kMostRows * kMostCols / 32);
  std::vector<int32_t> sums(kMostRows * kMostCols / 32);
  const LinearScratch scratch = {quantized.data(), scales.data(), sums.data(), nullptr};
  const std::vector<float> x = test::random_values(kMostRows * kCols, 7, 2.0f);
  Kernels kernels;
  ASSERT_TRUE(select_kernels(0, &kernels));
  const LinearTools alone = {kernels, {1, nullptr, nullptr}, scratch, nullptr};
  for (const std::vector<Segment>& segments : cases) {
    std::vector<float> want[2];
    for (size_t k = 0; k < 2; ++k) {
      want[k].assign(kMostRows * shapes[k].rows, -1.0f);
      for (const Segment& segment : segments) {
        if (segment.n_rows == 0) continue;
        const Tensor matrix = stacks[k].matrix(segment.index);
        const LinearCall call = {&matrix, want[k].data() + segment.first_row * shapes[k].rows};
        const Segment all = {0, 0, segment.n_rows};
        ASSERT_EQ(kExactBackend.linear(alone, x.data() + segment.first_row * kCols, {&all, 1},
                                       {&call, 1}),
                  Status::kOk);
      }
    }
    for (const uint32_t n_threads : {1u, 2u, 3u}) {
      const Threads threads = {n_threads, n_threads > 1 ? test::thread_per_task : nullptr, nullptr};
      const LinearTools tools = {kernels, threads, scratch, nullptr};
      std::vector<float> y[2];
      for (size_t k = 0; k < 2; ++k) y[k].assign(want[k].size(), -1.0f);
      const std::vector<LinearCall> calls = {{&stacks[0].tensor, y[0].data()},
                                             {&stacks[1].tensor, y[1].data()}};
      ASSERT_EQ(kExactBackend.linear(tools, x.data(), segments, calls), Status::kOk);
      for (size_t k = 0; k < 2; ++k) {
        EXPECT_EQ(std::memcmp(y[k].data(), want[k].data(), y[k].size() * sizeof(float)), 0)
            << segments.size() << " segments, stack " << k << ", " << n_threads << " threads";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ExactBackend, Stacks, testing::ValuesIn(kMatrixFormats),
                         [](const testing::TestParamInfo<MatrixFormat>& format) {
                           return std::string(number_format_name(format.param.number_format)) +
                                  "_" + std::to_string(format.param.group_size);
                         });

}  // namespace
}  // namespace cria
