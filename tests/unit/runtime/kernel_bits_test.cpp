// Every kernel of every ISA that this CPU runs must equal the scalar reference bit for bit, and
// stay within its arrays. Results that are NaN must be NaN in both: which of two NaNs an addition
// passes on is the compiler's choice even in the scalar code.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "quant/float16.h"
#include "quant/tile16.h"
#include "runtime/kernels/kernels.h"
#include "runtime/scalar_math.h"
#include "tests/support/guarded.h"
#include "tests/support/isa_list.h"

namespace cria {
namespace {

using format::NumberFormat;
using test::Edge;
using test::Guarded;
using test::IsaRow;

constexpr Edge kEdges[] = {Edge::kEnd, Edge::kStart};
constexpr size_t kRoom = size_t{1} << 22;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

size_t compared = 0;

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
         (std::isnan(a) && std::isnan(b));
}

template <class T>
bool same(T a, T b) {
  return a == b;
}

template <class T>
testing::AssertionResult same_arrays(const T* want, const T* got, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (!same(want[i], got[i])) {
      return testing::AssertionFailure()
             << "element " << i << " of " << n << ": want " << +want[i] << ", got " << +got[i];
    }
  }
  if (n != 0) ++compared;
  return testing::AssertionSuccess();
}

// What values an array holds.
enum class Fill { kRandom, kTiny, kHuge, kSpecial, kZero };
constexpr Fill kFills[] = {Fill::kRandom, Fill::kTiny, Fill::kHuge, Fill::kSpecial, Fill::kZero};

std::vector<float> floats(size_t n, Fill fill, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-3.0f, 3.0f);
  constexpr float kSpecials[] = {kInfinity, -kInfinity, kNan,   -0.0f, 0x1p-149f, -0x1p-130f,
                                 0x1p-41f,  88.5f,      -90.0f, 3e38f, 1.0f};
  std::vector<float> values(n);
  for (float& v : values) {
    v = uniform(random);
    if (fill == Fill::kTiny) v *= 0x1p-126f;
    if (fill == Fill::kHuge) v *= 1e38f;
    if (fill == Fill::kSpecial && random() % 16 == 0)
      v = kSpecials[random() % std::size(kSpecials)];
    if (fill == Fill::kZero) v = 0.0f;
  }
  return values;
}

std::vector<int8_t> bytes(size_t n, int largest, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> uniform(-largest, largest);
  std::vector<int8_t> values(n);
  for (int8_t& v : values) v = static_cast<int8_t>(uniform(random));
  return values;
}

// Integer products ------------------------------------------------------------------------------

// Codes and scales of weights, or codes and scales of activations.
enum class Codes { kRandom, kLowest, kHighest, kZeroScale, kLargestScale, kAlternating };
constexpr Codes kCodes[] = {Codes::kRandom,    Codes::kLowest,       Codes::kHighest,
                            Codes::kZeroScale, Codes::kLargestScale, Codes::kAlternating};

int code_of(Codes kind, int lowest, int highest, size_t i, std::mt19937* random) {
  switch (kind) {
    case Codes::kLowest:
      return lowest;
    case Codes::kHighest:
      return highest;
    case Codes::kAlternating:
      return i % 2 == 0 ? lowest : highest;
    default:
      return lowest + static_cast<int>((*random)() % static_cast<unsigned>(highest - lowest + 1));
  }
}

float scale_of(Codes kind, std::mt19937* random) {
  if (kind == Codes::kZeroScale) return 0.0f;
  if (kind == Codes::kLargestScale) return 3e38f;
  return 0.001f + static_cast<float>((*random)() % 1000) * 1e-4f;
}

struct Matrix {
  MatrixShape shape;
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
};

Matrix integer_matrix(const MatrixShape& shape, Codes kind) {
  std::mt19937 random(shape.rows * 1000 + shape.cols);
  const bool is_int4 = shape.number_format == NumberFormat::kInt4;
  Matrix m = {shape, std::vector<uint8_t>(code_plane_bytes(shape)),
              std::vector<uint8_t>(scale_plane_bytes(shape))};
  for (size_t i = 0; i < m.codes.size(); ++i) {
    if (is_int4) {
      const int low = code_of(kind, -8, 7, i, &random) + 8;
      const int high = code_of(kind, -8, 7, i + 1, &random) + 8;
      m.codes[i] = static_cast<uint8_t>(low | high << 4);
    } else {
      m.codes[i] = static_cast<uint8_t>(code_of(kind, -127, 127, i, &random));
    }
  }
  for (size_t i = 0; i < m.scales.size(); i += is_int4 ? 2 : 4) {
    const uint16_t bf16 = f32_to_bf16(scale_of(kind, &random));
    const float scale = scale_of(kind, &random);
    std::memcpy(&m.scales[i], is_int4 ? static_cast<const void*>(&bf16) : &scale, is_int4 ? 2 : 4);
  }
  return m;
}

struct Activations {
  std::vector<int8_t> codes;
  std::vector<float> scales;
  std::vector<int32_t> sums;
  size_t n_rows;
};

Activations activations(size_t n_rows, size_t padded, Codes kind) {
  std::mt19937 random(static_cast<unsigned>(n_rows * 31 + padded));
  Activations a = {std::vector<int8_t>(n_rows * padded),
                   std::vector<float>(n_rows * padded / kActivationGroup),
                   std::vector<int32_t>(n_rows * padded / kActivationGroup), n_rows};
  for (size_t i = 0; i < a.codes.size(); ++i) {
    a.codes[i] = static_cast<int8_t>(code_of(kind, -127, 127, i, &random));
    a.sums[i / kActivationGroup] += a.codes[i];
  }
  for (float& scale : a.scales) scale = scale_of(kind, &random);
  return a;
}

struct Tiles {
  size_t first;
  size_t last;
};

std::vector<Tiles> ranges_of(uint32_t rows) {
  const size_t n = tile_count(rows);
  std::vector<Tiles> ranges = {{0, n}, {n, n}};
  if (n > 1) ranges.insert(ranges.end(), {{1, n}, {0, n - 1}, {n - 1, n}});
  return ranges;
}

// One product, guarded on all sides: weights, activations and y at the same edge.
void compare_integer(MatmulQ8 want, MatmulQ8 got, const Matrix& m, const Activations& a, Edge edge,
                     Tiles tiles) {
  static Guarded rooms[6] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom),
                             Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  const uint8_t* codes = rooms[0].copy(m.codes.data(), m.codes.size(), edge);
  const uint8_t* scales = rooms[1].copy(m.scales.data(), m.scales.size(), edge);
  const QuantizedRows x = {rooms[2].copy(a.codes.data(), a.codes.size(), edge),
                           rooms[3].copy(a.scales.data(), a.scales.size(), edge),
                           rooms[4].copy(a.sums.data(), a.sums.size(), edge), a.n_rows};
  // Elements outside the tiles and between the rows must keep their value.
  const size_t stride = m.shape.rows + (a.n_rows % 3 == 0 ? 5 : 0);
  const size_t n_y = (a.n_rows - 1) * stride + m.shape.rows;
  std::vector<float> y(n_y, 7.5f);
  float* y_got = rooms[5].copy(y.data(), n_y, edge);
  want(m.shape, codes, scales, tiles.first, tiles.last, x, y.data(), stride);
  got(m.shape, codes, scales, tiles.first, tiles.last, x, y_got, stride);
  EXPECT_TRUE(same_arrays(y.data(), y_got, n_y))
      << m.shape.rows << "x" << m.shape.cols << " group " << m.shape.group_size << " rows "
      << a.n_rows << " tiles " << tiles.first << ".." << tiles.last;
}

struct Size {
  uint32_t rows;
  uint32_t cols;
  size_t n_rows;
};

std::vector<Size> product_sizes() {
  std::vector<Size> sizes;
  for (uint32_t rows = 1; rows <= 33; ++rows) {
    sizes.insert(sizes.end(), {{rows, 33, 1}, {rows, 100, 2}, {rows, 7, 7}});
  }
  for (size_t n = 1; n <= 17; ++n) sizes.insert(sizes.end(), {{17, 96, n}, {48, 65, n}});
  sizes.insert(sizes.end(), {{33, 40, 33}, {33, 40, 64}});
  for (const uint32_t cols : {1u, 2u, 31u, 32u, 63u, 64u, 127u, 128u, 129u, 257u, 416u, 511u}) {
    sizes.insert(sizes.end(), {{20, cols, 1}, {36, cols, 3}});
  }
  // More groups than a kernel prepares at once.
  sizes.insert(sizes.end(), {{33, 2049, 1}, {33, 2081, 7}, {16, 4133, 2}});
  return sizes;
}

void check_integer(const Kernels& table, NumberFormat number_format, uint16_t group_size) {
  const bool is_int4 = number_format == NumberFormat::kInt4;
  const MatmulQ8 want = is_int4 ? kScalarKernels.matmul_q4_q8 : kScalarKernels.matmul_q8_q8;
  const MatmulQ8 got = is_int4 ? table.matmul_q4_q8 : table.matmul_q8_q8;
  const auto compare = [&](const Size& size, Codes weights, Codes inputs) {
    const MatrixShape shape = {size.rows, size.cols, number_format, group_size};
    const Matrix m = integer_matrix(shape, weights);
    const Activations a = activations(size.n_rows, padded_cols(shape), inputs);
    for (const Edge edge : kEdges) {
      for (const Tiles tiles : ranges_of(size.rows)) {
        compare_integer(want, got, m, a, edge, tiles);
      }
    }
  };
  for (const Size& size : product_sizes()) compare(size, Codes::kRandom, Codes::kRandom);
  for (const Codes weights : kCodes) {
    for (const Codes inputs : kCodes) {
      for (const size_t n_rows : {1u, 2u, 7u}) compare({33, 150, n_rows}, weights, inputs);
    }
  }
}

void check_q4_g32(const Kernels& table) { check_integer(table, NumberFormat::kInt4, 32); }
void check_q4_g64(const Kernels& table) { check_integer(table, NumberFormat::kInt4, 64); }
void check_q4_g128(const Kernels& table) { check_integer(table, NumberFormat::kInt4, 128); }
void check_q8(const Kernels& table) { check_integer(table, NumberFormat::kInt8, 0); }

// Float products --------------------------------------------------------------------------------

void compare_float(MatmulF32 want, MatmulF32 got, const Size& size, NumberFormat number_format,
                   Fill fill, Edge edge, Tiles tiles) {
  static Guarded rooms[3] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  const MatrixShape shape = {size.rows, size.cols, number_format, 0};
  std::vector<uint8_t> codes(code_plane_bytes(shape));
  const std::vector<float> w = floats(size_t{size.rows} * size.cols, fill, size.rows + 3);
  for (size_t tile = 0; tile < tile_count(size.rows); ++tile) {
    const size_t first = tile * kTileRows;
    pack_float_tile(shape, w.data() + first * size.cols,
                    std::min<size_t>(kTileRows, size.rows - first),
                    codes.data() + tile * tile_code_bytes(shape));
  }
  const std::vector<float> x = floats(size.n_rows * size.cols, fill, size.cols);
  const uint8_t* codes_got = rooms[0].copy(codes.data(), codes.size(), edge);
  const float* x_got = rooms[1].copy(x.data(), x.size(), edge);
  const size_t stride = size.rows + (size.n_rows % 3 == 0 ? 5 : 0);
  const size_t n_y = (size.n_rows - 1) * stride + size.rows;
  std::vector<float> y(n_y, 7.5f);
  float* y_got = rooms[2].copy(y.data(), n_y, edge);
  want(shape, codes.data(), tiles.first, tiles.last, x.data(), size.n_rows, y.data(), stride);
  got(shape, codes_got, tiles.first, tiles.last, x_got, size.n_rows, y_got, stride);
  EXPECT_TRUE(same_arrays(y.data(), y_got, n_y))
      << size.rows << "x" << size.cols << " rows " << size.n_rows << " fill "
      << static_cast<int>(fill);
}

void check_float(MatmulF32 want, MatmulF32 got, NumberFormat number_format) {
  for (const Size& size : product_sizes()) {
    for (const Tiles tiles : ranges_of(size.rows)) {
      for (const Edge edge : kEdges) {
        compare_float(want, got, size, number_format, Fill::kRandom, edge, tiles);
      }
    }
  }
  for (const Fill fill : kFills) {
    for (const size_t n_rows : {1u, 2u, 7u}) {
      compare_float(want, got, {33, 50, n_rows}, number_format, fill, Edge::kEnd, {0, 3});
    }
  }
}

void check_f32(const Kernels& table) {
  check_float(kScalarKernels.matmul_f32_f32, table.matmul_f32_f32, NumberFormat::kF32);
}
// Every weight of 16 bits times 1, a row of W each.
void check_every_weight(MatmulF32 want, MatmulF32 got, NumberFormat number_format) {
  constexpr uint32_t kPatterns = 1u << 16;
  constexpr size_t kRows = 7;  // blocks of all kinds
  std::vector<uint16_t> codes(kPatterns);
  std::iota(codes.begin(), codes.end(), uint16_t{0});
  const auto* bytes = reinterpret_cast<const uint8_t*>(codes.data());
  const std::vector<float> x(kRows, 1.0f);
  std::vector<float> y_want(kRows * kPatterns), y_got(kRows * kPatterns);
  const MatrixShape shape = {kPatterns, 1, number_format, 0};
  const size_t n_tiles = tile_count(kPatterns);
  want(shape, bytes, 0, n_tiles, x.data(), kRows, y_want.data(), kPatterns);
  got(shape, bytes, 0, n_tiles, x.data(), kRows, y_got.data(), kPatterns);
  EXPECT_TRUE(same_arrays(y_want.data(), y_got.data(), y_want.size()));
}

void check_f16(const Kernels& table) {
  check_float(kScalarKernels.matmul_f16_f32, table.matmul_f16_f32, NumberFormat::kF16);
  check_every_weight(kScalarKernels.matmul_f16_f32, table.matmul_f16_f32, NumberFormat::kF16);
}
void check_bf16(const Kernels& table) {
  check_float(kScalarKernels.matmul_bf16_f32, table.matmul_bf16_f32, NumberFormat::kBf16);
  check_every_weight(kScalarKernels.matmul_bf16_f32, table.matmul_bf16_f32, NumberFormat::kBf16);
}

// Vectors ---------------------------------------------------------------------------------------

constexpr size_t kLengths[] = {0,  1,   2,   3,   4,   5,   7,   8,    9,   15, 16,
                               17, 31,  32,  33,  47,  48,  63,  64,   65,  80, 95,
                               96, 128, 130, 172, 255, 256, 257, 1000, 2048};

// Calls check(n, fill, edge) for all of them.
template <class Check>
void for_vectors(Check check) {
  for (const size_t n : kLengths) {
    for (const Fill fill : kFills) {
      for (const Edge edge : kEdges) check(n, fill, edge);
    }
  }
}

void compare_quantize_row(QuantizeRow got, const std::vector<float>& x, size_t n_padded,
                          size_t group, Edge edge) {
  static Guarded rooms[4] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  const size_t n_groups = n_padded / group;
  std::vector<int8_t> codes(n_padded, 99);
  std::vector<float> scales(n_groups, 99.0f);
  std::vector<int32_t> sums(n_groups, 99);
  kScalarKernels.quantize_row(x.data(), x.size(), n_padded, group, codes.data(), scales.data(),
                              sums.data());
  const float* x_got = rooms[0].copy(x.data(), x.size(), edge);
  auto* codes_got = rooms[1].place<int8_t>(n_padded, edge);
  auto* scales_got = rooms[2].place<float>(n_groups, edge);
  auto* sums_got = rooms[3].place<int32_t>(n_groups, edge);
  for (int32_t* const wanted_sums : {sums_got, static_cast<int32_t*>(nullptr)}) {
    std::memset(codes_got, 99, n_padded);
    got(x_got, x.size(), n_padded, group, codes_got, scales_got, wanted_sums);
    EXPECT_TRUE(same_arrays(codes.data(), codes_got, n_padded))
        << x.size() << " of " << n_padded << " in groups of " << group;
    EXPECT_TRUE(same_arrays(scales.data(), scales_got, n_groups));
    EXPECT_TRUE(same_arrays(sums.data(), sums_got, n_groups));
  }
}

void check_quantize_row(const Kernels& table) {
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    const std::vector<float> x = floats(n, fill, static_cast<unsigned>(n));
    const size_t padded = round_up(n, kActivationGroup);
    compare_quantize_row(table.quantize_row, x, padded, kActivationGroup, edge);
    compare_quantize_row(table.quantize_row, x, padded + 96, kActivationGroup, edge);
    if (n == 0) return;
    compare_quantize_row(table.quantize_row, x, n, n, edge);
    compare_quantize_row(table.quantize_row, x, padded, padded, edge);
  });
  // Values that fall between two codes, and magnitudes around the smallest that counts.
  for (const float size : {127.0f, 0x1.fp-41f, 0x1p-40f, 0x1.8p-40f, 3e38f}) {
    std::vector<float> x(64, size);
    for (size_t i = 1; i < x.size(); ++i) x[i] *= (static_cast<float>(i) - 31.5f) / 127.0f;
    compare_quantize_row(table.quantize_row, x, 64, 32, Edge::kEnd);
    compare_quantize_row(table.quantize_row, x, 64, 64, Edge::kEnd);
  }
}

void check_rms_norm(const Kernels& table) {
  static Guarded rooms[3] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    const std::vector<float> x = floats(n, fill, 1);
    const std::vector<float> weight = floats(n, Fill::kRandom, 2);
    std::vector<float> y(n);
    kScalarKernels.rms_norm(x.data(), weight.data(), n, 1e-5f, y.data());
    auto* got = rooms[2].place<float>(n, edge);
    table.rms_norm(rooms[0].copy(x.data(), n, edge), rooms[1].copy(weight.data(), n, edge), n,
                   1e-5f, got);
    EXPECT_TRUE(same_arrays(y.data(), got, n)) << n;
  });
}

void check_rope(const Kernels& table) {
  static Guarded rooms[3] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  for_vectors([&](size_t half, Fill fill, Edge edge) {
    const size_t n_heads = 3;
    const size_t n = n_heads * half * 2;
    std::vector<float> x = floats(n, fill, 1);
    const std::vector<float> cos = floats(half, Fill::kRandom, 2);
    const std::vector<float> sin = floats(half, Fill::kRandom, 3);
    float* got = rooms[0].copy(x.data(), n, edge);
    kScalarKernels.rope(x.data(), n_heads, half * 2, cos.data(), sin.data());
    table.rope(got, n_heads, half * 2, rooms[1].copy(cos.data(), half, edge),
               rooms[2].copy(sin.data(), half, edge));
    EXPECT_TRUE(same_arrays(x.data(), got, n)) << half;
  });
}

void check_silu_mul(const Kernels& table) {
  static Guarded rooms[2] = {Guarded(kRoom), Guarded(kRoom)};
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    std::vector<float> gate = floats(n, fill, 1);
    for (float& g : gate) g *= 20.0f;
    const std::vector<float> up = floats(n, fill, 2);
    float* got = rooms[0].copy(gate.data(), n, edge);
    kScalarKernels.silu_mul(gate.data(), up.data(), n);
    table.silu_mul(got, rooms[1].copy(up.data(), n, edge), n);
    EXPECT_TRUE(same_arrays(gate.data(), got, n)) << n;
  });
}

void check_add_scaled(const Kernels& table) {
  static Guarded rooms[2] = {Guarded(kRoom), Guarded(kRoom)};
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    std::vector<float> x = floats(n, fill, 1);
    const std::vector<float> y = floats(n, fill, 2);
    for (const float multiplier : {1.0f, 0.22f}) {
      float* got = rooms[0].copy(x.data(), n, edge);
      kScalarKernels.add_scaled(x.data(), y.data(), multiplier, n);
      table.add_scaled(got, rooms[1].copy(y.data(), n, edge), multiplier, n);
      EXPECT_TRUE(same_arrays(x.data(), got, n)) << n;
    }
  });
}

void check_exp_sum(const Kernels& table) {
  static Guarded room(kRoom);
  for_vectors([&](size_t n, Fill fill, Edge edge) {
    for (const float max : {0.0f, 3.0f, -2.0f}) {
      std::vector<float> scores = floats(n, fill, 1);
      for (float& s : scores) s *= 30.0f;
      float* got = room.copy(scores.data(), n, edge);
      const float want_sum = kScalarKernels.exp_sum(scores.data(), n, max);
      const float got_sum = table.exp_sum(got, n, max);
      EXPECT_TRUE(same_arrays(scores.data(), got, n)) << n;
      EXPECT_TRUE(same_arrays(&want_sum, &got_sum, 1)) << n;
    }
  });
}

// Every exponent and sign that exp can meet, and the ends of its range.
void check_exp(const Kernels& table) {
  std::vector<float> want;
  for (const float end : {kExpLowest, kExpHighest}) {
    want.insert(want.end(), {std::nextafter(end, -kInfinity), end, std::nextafter(end, kInfinity)});
  }
  for (uint32_t bits = 0; bits < 0xffff0000u; bits += 65521) {
    want.push_back(std::bit_cast<float>(bits));
  }
  for (float x = -90.0f; x < 90.0f; x += 0.0173f) want.push_back(x);
  std::vector<float> got = want;
  const float want_sum = kScalarKernels.exp_sum(want.data(), want.size(), 0.0f);
  const float got_sum = table.exp_sum(got.data(), got.size(), 0.0f);
  EXPECT_TRUE(same_arrays(want.data(), got.data(), want.size()));
  EXPECT_TRUE(same_arrays(&want_sum, &got_sum, 1));
}

// Attention -------------------------------------------------------------------------------------

constexpr size_t kHeadDims[] = {1, 2, 7, 8, 15, 16, 20, 31, 32, 33, 48, 64, 80, 96, 100, 128, 256};
// No power of two: products with one are exact in any order.
constexpr float kMultiplier = 0.3f;
constexpr size_t kPositions[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64};

template <class Check>
void for_heads(Check check) {
  for (const size_t head_dim : kHeadDims) {
    for (const size_t n : kPositions) {
      for (const Edge edge : kEdges) check(head_dim, n, edge);
    }
  }
}

void check_scores_q8(const Kernels& table) {
  static Guarded rooms[5] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom), Guarded(kRoom),
                             Guarded(kRoom)};
  for_heads([&](size_t head_dim, size_t n, Edge edge) {
    for (const Codes kind : kCodes) {
      const size_t n_groups = (head_dim + kActivationGroup - 1) / kActivationGroup;
      std::mt19937 random(static_cast<unsigned>(head_dim * 100 + n));
      std::vector<int8_t> q(head_dim), keys(n * head_dim);
      for (size_t i = 0; i < q.size(); ++i) {
        q[i] = static_cast<int8_t>(code_of(kind, -127, 127, i, &random));
      }
      for (size_t i = 0; i < keys.size(); ++i) {
        keys[i] = static_cast<int8_t>(code_of(kind, -127, 127, i, &random));
      }
      std::vector<float> q_scales(n_groups), key_scales(n), scores(n);
      for (float& s : q_scales) s = scale_of(kind, &random);
      for (float& s : key_scales) s = scale_of(kind, &random);
      kScalarKernels.scores_q8(q.data(), q_scales.data(), head_dim, keys.data(), key_scales.data(),
                               kMultiplier, n, scores.data());
      auto* got = rooms[4].place<float>(n, edge);
      table.scores_q8(rooms[0].copy(q.data(), head_dim, edge),
                      rooms[1].copy(q_scales.data(), n_groups, edge), head_dim,
                      rooms[2].copy(keys.data(), keys.size(), edge),
                      rooms[3].copy(key_scales.data(), n, edge), kMultiplier, n, got);
      EXPECT_TRUE(same_arrays(scores.data(), got, n)) << head_dim << " " << n;
    }
  });
}

void check_scores_f32(const Kernels& table) {
  static Guarded rooms[3] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  for_heads([&](size_t head_dim, size_t n, Edge edge) {
    for (const Fill fill : kFills) {
      const std::vector<float> q = floats(head_dim, fill, 1);
      const std::vector<float> keys = floats(n * head_dim, fill, 2);
      std::vector<float> scores(n);
      kScalarKernels.scores_f32(q.data(), head_dim, keys.data(), kMultiplier, n, scores.data());
      auto* got = rooms[2].place<float>(n, edge);
      table.scores_f32(rooms[0].copy(q.data(), head_dim, edge), head_dim,
                       rooms[1].copy(keys.data(), keys.size(), edge), kMultiplier, n, got);
      EXPECT_TRUE(same_arrays(scores.data(), got, n)) << head_dim << " " << n;
    }
  });
}

void check_weighted_sum_q8(const Kernels& table) {
  static Guarded rooms[4] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  for_heads([&](size_t head_dim, size_t n, Edge edge) {
    for (const Fill fill : kFills) {
      const std::vector<float> weights = floats(n, fill, 1);
      const std::vector<int8_t> values = bytes(n * head_dim, 127, 2);
      const std::vector<float> scales = floats(n, Fill::kRandom, 3);
      std::vector<float> out = floats(head_dim, fill, 4);
      float* got = rooms[3].copy(out.data(), head_dim, edge);
      kScalarKernels.weighted_sum_q8(weights.data(), values.data(), scales.data(), n, head_dim,
                                     0.7f, out.data());
      table.weighted_sum_q8(rooms[0].copy(weights.data(), n, edge),
                            rooms[1].copy(values.data(), values.size(), edge),
                            rooms[2].copy(scales.data(), n, edge), n, head_dim, 0.7f, got);
      EXPECT_TRUE(same_arrays(out.data(), got, head_dim)) << head_dim << " " << n;
    }
  });
}

void check_weighted_sum_f32(const Kernels& table) {
  static Guarded rooms[3] = {Guarded(kRoom), Guarded(kRoom), Guarded(kRoom)};
  for_heads([&](size_t head_dim, size_t n, Edge edge) {
    for (const Fill fill : kFills) {
      const std::vector<float> weights = floats(n, fill, 1);
      const std::vector<float> values = floats(n * head_dim, fill, 2);
      std::vector<float> out = floats(head_dim, fill, 4);
      float* got = rooms[2].copy(out.data(), head_dim, edge);
      kScalarKernels.weighted_sum_f32(weights.data(), values.data(), n, head_dim, 0.7f, out.data());
      table.weighted_sum_f32(rooms[0].copy(weights.data(), n, edge),
                             rooms[1].copy(values.data(), values.size(), edge), n, head_dim, 0.7f,
                             got);
      EXPECT_TRUE(same_arrays(out.data(), got, head_dim)) << head_dim << " " << n;
    }
  });
}

// The list: every kernel, on every ISA of this CPU ----------------------------------------------

struct KernelRow {
  const char* name;
  void (*check)(const Kernels& table);
};

constexpr KernelRow kKernelRows[] = {
    {"quantize_row", check_quantize_row},
    {"matmul_q4_q8_g32", check_q4_g32},
    {"matmul_q4_q8_g64", check_q4_g64},
    {"matmul_q4_q8_g128", check_q4_g128},
    {"matmul_q8_q8", check_q8},
    {"matmul_f32_f32", check_f32},
    {"matmul_f16_f32", check_f16},
    {"matmul_bf16_f32", check_bf16},
    {"rms_norm", check_rms_norm},
    {"rope", check_rope},
    {"silu_mul", check_silu_mul},
    {"add_scaled", check_add_scaled},
    {"scores_q8", check_scores_q8},
    {"scores_f32", check_scores_f32},
    {"exp_sum", check_exp_sum},
    {"exp", check_exp},
    {"weighted_sum_q8", check_weighted_sum_q8},
    {"weighted_sum_f32", check_weighted_sum_f32},
};

using Case = std::tuple<IsaRow, KernelRow>;

class KernelBits : public testing::TestWithParam<Case> {};

TEST_P(KernelBits, EqualTheScalarReference) {
  const auto& [isa, row] = GetParam();
  Kernels table;
  ASSERT_TRUE(select_kernels(isa.mask, &table));
  ASSERT_STREQ(table.isa, isa.name);
  compared = 0;
  row.check(table);
  EXPECT_GT(compared, 0u);
  std::printf("%zu arrays compared\n", compared);
}

std::string case_label(const testing::TestParamInfo<Case>& info) {
  std::string name = std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name;
  std::erase(name, '.');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Isas, KernelBits,
                         testing::Combine(testing::ValuesIn(test::runnable_isas()),
                                          testing::ValuesIn(kKernelRows)),
                         case_label);

}  // namespace
}  // namespace cria
