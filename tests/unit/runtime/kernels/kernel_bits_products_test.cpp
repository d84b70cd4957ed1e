// Matrix products of every ISA against the scalar reference
// (tests/unit/runtime/kernels/kernel_bits.h).
#include <algorithm>
#include <iterator>
#include <numeric>

#include "quant/numbers/float16.h"
#include "quant/numbers/tile16.h"
#include "tests/unit/runtime/kernels/kernel_bits.h"

namespace cria {
namespace {

using format::NumberFormat;

struct Matrix {
  MatrixShape shape;
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
};

// Large ones become the largest of f16, tiny ones its subnormals and zeros.
uint16_t half_scale(NumberFormat number_format, float scale) {
  constexpr float kLargestF16 = 65504.0f;
  if (!has_f16_scales(number_format)) return f32_to_bf16(scale);
  return f32_to_f16(std::clamp(scale, -kLargestF16, kLargestF16));
}

Matrix integer_matrix(const MatrixShape& shape, Codes kind) {
  std::mt19937 random(shape.rows * 1000 + shape.cols);
  const bool is_int4 = has_nibbles(shape.number_format);
  const bool has_signs = may_be_signed(shape.number_format) || has_f16_scales(shape.number_format);
  const bool has_groups = has_group_scales(shape.number_format);
  Matrix m = {shape, std::vector<uint8_t>(code_plane_bytes(shape)),
              std::vector<uint8_t>(scale_plane_bytes(shape))};
  for (size_t i = 0; i < m.codes.size(); ++i) {
    if (is_int4) {
      const int low = code_of(kind, -8, 7, i, &random) + 8;
      const int high = code_of(kind, -8, 7, i + 1, &random) + 8;
      m.codes[i] = static_cast<uint8_t>(low | high << 4);
    } else if (is_trained_bits(shape.number_format)) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        m.codes[i] = static_cast<uint8_t>(m.codes[i] << 1 | code_of(kind, 0, 1, i + bit, &random));
      }
    } else {
      m.codes[i] = static_cast<uint8_t>(code_of(kind, -127, 127, i, &random));
    }
  }
  for (size_t i = 0; i < m.scales.size(); i += has_groups ? 2 : 4) {
    const float scale = scale_of(kind, &random);
    // Those of int4, int4nl and trained bits may be of either sign.
    const bool is_turned = has_signs && scale != 0 && random() % 2 == 0;
    const uint16_t half = half_scale(shape.number_format, is_turned ? -scale : scale);
    std::memcpy(&m.scales[i], has_groups ? static_cast<const void*>(&half) : &scale,
                has_groups ? 2 : 4);
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
  const auto seed = static_cast<unsigned>(n_rows * 31 + padded);
  Activations a = {codes(n_rows * padded, kind, seed),
                   scales(n_rows * padded / kActivationGroup, kind, seed + 1),
                   std::vector<int32_t>(n_rows * padded / kActivationGroup), n_rows};
  for (size_t i = 0; i < a.codes.size(); ++i) a.sums[i / kActivationGroup] += a.codes[i];
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
  const uint8_t* w = rooms[0].copy(m.codes.data(), m.codes.size(), edge);
  const uint8_t* w_scales = rooms[1].copy(m.scales.data(), m.scales.size(), edge);
  const QuantizedRows x = {rooms[2].copy(a.codes.data(), a.codes.size(), edge),
                           rooms[3].copy(a.scales.data(), a.scales.size(), edge),
                           rooms[4].copy(a.sums.data(), a.sums.size(), edge), a.n_rows};
  // Elements outside the tiles and between the rows must keep their value.
  const size_t stride = m.shape.rows + (a.n_rows % 3 == 0 ? 5 : 0);
  const size_t n_y = a.n_rows == 0 ? 0 : (a.n_rows - 1) * stride + m.shape.rows;
  std::vector<float> y(n_y, 7.5f);
  float* y_got = rooms[5].copy(y.data(), n_y, edge);
  want(m.shape, w, w_scales, tiles.first, tiles.last, x, y.data(), stride);
  got(m.shape, w, w_scales, tiles.first, tiles.last, x, y_got, stride);
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
  // More rows than a kernel keeps at once, and what is left of them.
  sizes.insert(sizes.end(), {{33, 300, 31}, {17, 513, 37}, {48, 270, 61}, {16, 40, 121}});
  // More groups than a kernel prepares at once.
  sizes.insert(sizes.end(), {{33, 2049, 1}, {33, 2081, 7}, {16, 4133, 2}});
  return sizes;
}

// Every height with some width, every number of rows with widths below and above what a kernel
// prepares at once; the other size is any.
std::vector<Size> mixed_sizes() {
  constexpr uint32_t kWidths[] = {1,  2,  3,  4,  5,  7,  8,  9,   12,  15,  16,  17,  23,
                                  31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 255, 300};
  std::mt19937 random(20261120);
  std::vector<Size> sizes;
  for (uint32_t rows = 1; rows <= 33; ++rows) {
    sizes.push_back({rows, kWidths[random() % std::size(kWidths)], 1 + random() % 9});
  }
  for (size_t n_rows = 0; n_rows <= 17; ++n_rows) {
    for (const uint32_t cols : {1u, 32u, 33u, 200u, 300u, 1100u}) {
      sizes.push_back({1 + static_cast<uint32_t>(random() % 33), cols, n_rows});
    }
  }
  return sizes;
}

void check_integer(const Kernels& table, NumberFormat number_format, uint16_t group_size) {
  const MatmulQ8 want = kScalarKernels.products.of[place_of(number_format)].codes;
  const MatmulQ8 got = table.products.of[place_of(number_format)].codes;
  const auto compare_tiles = [&](const Size& size, Codes weights, Codes inputs,
                                 std::span<const Tiles> ranges) {
    const MatrixShape shape = {size.rows, size.cols, number_format, group_size};
    const Matrix m = integer_matrix(shape, weights);
    const Activations a = activations(size.n_rows, padded_cols(shape), inputs);
    for (const Edge edge : kEdges) {
      for (const Tiles tiles : ranges) compare_integer(want, got, m, a, edge, tiles);
    }
  };
  const auto compare = [&](const Size& size, Codes weights, Codes inputs) {
    compare_tiles(size, weights, inputs, ranges_of(size.rows));
  };
  for (const Size& size : product_sizes()) compare(size, Codes::kRandom, Codes::kRandom);
  for (const Size& size : mixed_sizes()) {
    for (const Codes kind : {Codes::kRandom, Codes::kEnds, Codes::kSomeScales, Codes::kFarScales}) {
      const Tiles all = {0, tile_count(size.rows)};
      compare_tiles(size, kind, kind, {&all, 1});
    }
  }
  for (const Codes weights : kCodes) {
    for (const Codes inputs : kCodes) {
      for (const size_t n_rows : {1u, 2u, 7u}) compare({33, 150, n_rows}, weights, inputs);
    }
  }
}

void check_q4_g32(const Kernels& table) { check_integer(table, NumberFormat::kInt4, 32); }
void check_q4_g64(const Kernels& table) { check_integer(table, NumberFormat::kInt4, 64); }
void check_q4_g128(const Kernels& table) { check_integer(table, NumberFormat::kInt4, 128); }
void check_q4nl_g32(const Kernels& table) { check_integer(table, NumberFormat::kInt4Nl, 32); }
void check_q4nl_g128(const Kernels& table) { check_integer(table, NumberFormat::kInt4Nl, 128); }
void check_q8(const Kernels& table) { check_integer(table, NumberFormat::kInt8, 0); }
void check_q8g(const Kernels& table) { check_integer(table, NumberFormat::kInt8G32, 32); }
void check_q1(const Kernels& table) { check_integer(table, NumberFormat::kBit1, 128); }
void check_q2(const Kernels& table) { check_integer(table, NumberFormat::kBit2, 64); }

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
  const size_t n_y = size.n_rows == 0 ? 0 : (size.n_rows - 1) * stride + size.rows;
  std::vector<float> y(n_y, 7.5f);
  float* y_got = rooms[2].copy(y.data(), n_y, edge);
  want(shape, codes.data(), tiles.first, tiles.last, x.data(), size.n_rows, y.data(), stride);
  got(shape, codes_got, tiles.first, tiles.last, x_got, size.n_rows, y_got, stride);
  EXPECT_TRUE(same_arrays(y.data(), y_got, n_y))
      << size.rows << "x" << size.cols << " rows " << size.n_rows << " fill "
      << static_cast<int>(fill);
}

void check_float(const Kernels& table, NumberFormat number_format) {
  const MatmulF32 want = kScalarKernels.products.of[place_of(number_format)].floats;
  const MatmulF32 got = table.products.of[place_of(number_format)].floats;
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
    for (const Size& size : mixed_sizes()) {
      for (const Edge edge : kEdges) {
        compare_float(want, got, size, number_format, fill, edge, {0, tile_count(size.rows)});
      }
    }
  }
}

void check_f32(const Kernels& table) { check_float(table, NumberFormat::kF32); }
// Every weight of 16 bits times 1, a row of W each.
void check_every_weight(const Kernels& table, NumberFormat number_format) {
  const MatmulF32 want = kScalarKernels.products.of[place_of(number_format)].floats;
  const MatmulF32 got = table.products.of[place_of(number_format)].floats;
  constexpr uint32_t kPatterns = 1u << 16;
  constexpr size_t kRows = 7;  // blocks of all kinds
  std::vector<uint16_t> codes(kPatterns);
  std::iota(codes.begin(), codes.end(), uint16_t{0});
  if (!kHasSubnormals && number_format == NumberFormat::kBf16) {
    constexpr uint16_t kExponent = 0x7f80;
    for (uint16_t& code : codes) code = (code & kExponent) == 0 ? 0 : code;
  }
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
  check_float(table, NumberFormat::kF16);
  check_every_weight(table, NumberFormat::kF16);
}
void check_bf16(const Kernels& table) {
  check_float(table, NumberFormat::kBf16);
  check_every_weight(table, NumberFormat::kBf16);
}

constexpr KernelRow kKernelRows[] = {
    {"matmul_q4_q8_g32", check_q4_g32},
    {"matmul_q4_q8_g64", check_q4_g64},
    {"matmul_q4_q8_g128", check_q4_g128},
    {"matmul_q4nl_q8_g32", check_q4nl_g32},
    {"matmul_q4nl_q8_g128", check_q4nl_g128},
    {"matmul_q8_q8", check_q8},
    {"matmul_q8g_q8", check_q8g},
    {"matmul_q1_q8", check_q1},
    {"matmul_q2_q8", check_q2},
    {"matmul_f32_f32", check_f32},
    {"matmul_f16_f32", check_f16},
    {"matmul_bf16_f32", check_bf16},
};

class ProductBits : public KernelBits {};

TEST_P(ProductBits, EqualTheScalarReference) { expect_scalar_bits(); }

// AVX-512 asks for weights in one of two ways, by whether the mask has AVX-VNNI: this is the way
// that this machine does not take. Neither has an instruction of AVX-VNNI.
std::vector<IsaRow> asking_otherwise() {
  constexpr uint32_t kAvxVnni = CRIA_ISA_AVX_VNNI;
  std::vector<IsaRow> found;
  for (const IsaRow& isa : test::runnable_isas()) {
    if (isa.isa == Isa::kAvx512Vnni) found.push_back({isa.isa, isa.name, isa.mask ^ kAvxVnni});
  }
  return found;
}

INSTANTIATE_TEST_SUITE_P(AskingOtherwise, ProductBits,
                         testing::Combine(testing::ValuesIn(asking_otherwise()),
                                          testing::ValuesIn(kKernelRows)),
                         case_label);
INSTANTIATE_TEST_SUITE_P(Isas, ProductBits,
                         testing::Combine(testing::ValuesIn(test::runnable_isas()),
                                          testing::ValuesIn(kKernelRows)),
                         case_label);

}  // namespace
}  // namespace cria
