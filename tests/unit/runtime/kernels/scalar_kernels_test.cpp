// The scalar reference against the same formulas in double precision, within bounds derived from
// the number of roundings. (Faster kernels are compared with the scalar ones bit for bit.)
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "quant/numbers/quantize.h"
#include "quant/numbers/tile16.h"
#include "quant/numbers/trained_codes.h"
#include "runtime/kernels/scalar/scalar.h"

namespace cria {
namespace {

using format::NumberFormat;

constexpr double kEpsilon = 0x1p-24;  // largest relative error of one rounding to f32

std::vector<float> random_floats(size_t n, unsigned seed, float size) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-size, size);
  std::vector<float> values(n);
  for (float& v : values) v = uniform(random);
  return values;
}

struct Planes {
  MatrixShape shape;
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
};

Planes pack(const MatrixShape& shape, const std::vector<float>& w) {
  Planes p = {shape, std::vector<uint8_t>(static_cast<size_t>(code_plane_bytes(shape))),
              std::vector<uint8_t>(static_cast<size_t>(scale_plane_bytes(shape)))};
  const size_t padded = padded_cols(shape);
  for (size_t tile = 0; tile < tile_count(shape.rows); ++tile) {
    const size_t first = tile * kTileRows;
    const size_t n = std::min<size_t>(kTileRows, shape.rows - first);
    const float* rows = w.data() + first * shape.cols;
    uint8_t* codes_out = p.codes.data() + tile * tile_code_bytes(shape);
    uint8_t* scales_out = p.scales.data() + tile * tile_scale_bytes(shape);
    std::vector<int8_t> codes(n * padded);
    if (has_group_scales(shape.number_format)) {
      std::vector<uint16_t> scales(n * padded / shape.group_size);
      if (is_trained_bits(shape.number_format)) {
        EXPECT_TRUE(find_exact_bits(shape, rows, n, codes.data(), scales.data()));
      } else {
        const bool is_signed = may_be_signed(shape.number_format);
        quantize_groups(shape, rows, n, QuantMethod::kRtn,
                        is_signed ? ScaleSigns::kBoth : ScaleSigns::kPositive, codes.data(),
                        scales.data());
      }
      pack_group_tile(shape, codes.data(), scales.data(), n, codes_out, scales_out);
    } else if (shape.number_format == NumberFormat::kInt8) {
      std::vector<float> scales(n);
      for (size_t r = 0; r < n; ++r) {
        quantize_row_int8(rows + r * shape.cols, shape.cols, QuantMethod::kRtn, padded,
                          &codes[r * padded], &scales[r]);
      }
      pack_int8_tile(shape, codes.data(), scales.data(), n, codes_out, scales_out);
    } else {
      pack_float_tile(shape, rows, n, codes_out);
    }
  }
  return p;
}

// Such weights of trained bits as the format has, else any.
std::vector<float> random_weights(const MatrixShape& shape) {
  std::vector<float> w = random_floats(size_t{shape.rows} * shape.cols, 3, 0.1f);
  if (!is_trained_bits(shape.number_format)) return w;
  std::mt19937 random(5);
  for (size_t i = 0; i < w.size(); ++i) {
    const size_t group = i / shape.cols * 7 + i % shape.cols / shape.group_size;
    const int code = static_cast<int>(random() % (1u << row_of(shape.number_format).code_bits));
    const float scale = group % 2 == 0 ? 0.0625f : -0.046875f;
    w[i] = static_cast<float>(value_of_code(shape.number_format, code)) * scale;
  }
  return w;
}

TEST(ScalarKernels, QuantizedRowsErrByAtMostHalfAStep) {
  const std::vector<float> x = random_floats(75, 1, 3.0f);
  std::vector<int8_t> codes(96, 99);
  std::vector<float> scales(3, -1.0f);
  quantize_row_scalar(x.data(), x.size(), 96, 32, codes.data(), scales.data(), nullptr);
  for (size_t i = 0; i < x.size(); ++i) {
    const double scale = static_cast<double>(scales[i / 32]);
    EXPECT_LE(std::fabs(static_cast<double>(x[i]) - codes[i] * scale), scale * 0.5001);
  }
  for (size_t i = x.size(); i < 96; ++i) EXPECT_EQ(codes[i], 0);
}

TEST(ScalarKernels, TheLargestActivationGets127AndTiesGoToEven) {
  std::vector<float> x(32, 0.0f);
  x[0] = 127.0f;  // scale is exactly 1
  x[1] = 0.5f;
  x[2] = 1.5f;
  x[3] = -2.5f;
  std::vector<int8_t> codes(32);
  float scale = 0;
  quantize_row_scalar(x.data(), 32, 32, 32, codes.data(), &scale, nullptr);
  EXPECT_EQ(scale, 1.0f);
  EXPECT_EQ(codes[0], 127);
  EXPECT_EQ(codes[1], 0);
  EXPECT_EQ(codes[2], 2);
  EXPECT_EQ(codes[3], -2);
}

TEST(ScalarKernels, GroupsThatAreTinyOrNotFiniteCountAsZero) {
  for (const float bad : {0.0f, 1e-20f, std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x(32, bad);
    std::vector<int8_t> codes(32, 99);
    float scale = -1;
    quantize_row_scalar(x.data(), 32, 32, 32, codes.data(), &scale, nullptr);
    EXPECT_EQ(scale, 0.0f);
    for (const int8_t code : codes) EXPECT_EQ(code, 0);
  }
}

TEST(ScalarKernels, IntegerProductsAreTheSumOfScaledGroups) {
  size_t compared = 0;
  double worst = 0;
  for (const MatrixShape& shape :
       {MatrixShape{17, 70, NumberFormat::kInt4, 32},
        MatrixShape{33, 256, NumberFormat::kInt4, 128}, MatrixShape{1, 64, NumberFormat::kInt4, 64},
        MatrixShape{19, 45, NumberFormat::kInt8, 0},
        MatrixShape{19, 45, NumberFormat::kInt8G32, 32},
        MatrixShape{19, 300, NumberFormat::kBit1, 128},
        MatrixShape{19, 150, NumberFormat::kBit2, 64}}) {
    const Planes w = pack(shape, random_weights(shape));
    const size_t padded = padded_cols(shape);
    constexpr size_t kRows = 3;
    std::vector<int8_t> codes(kRows * padded);
    std::vector<float> scales(kRows * padded / 32);
    std::vector<int32_t> sums(kRows * padded / 32);
    const std::vector<float> x = random_floats(kRows * shape.cols, 4, 2.0f);
    for (size_t i = 0; i < kRows; ++i) {
      quantize_row_scalar(&x[i * shape.cols], shape.cols, padded, 32, &codes[i * padded],
                          &scales[i * padded / 32], &sums[i * padded / 32]);
    }
    std::vector<float> y(kRows * shape.rows, -1.0f);
    const QuantizedRows rows = {codes.data(), scales.data(), sums.data(), kRows};
    matmul_codes_scalar(shape, w.codes.data(), w.scales.data(), 0, tile_count(shape.rows), rows,
                        y.data(), shape.rows);
    std::vector<float> row(shape.cols);
    for (size_t r = 0; r < shape.rows; ++r) {
      unpack_row(shape, w.codes.data(), w.scales.data(), r, row.data());
      for (size_t i = 0; i < kRows; ++i, ++compared) {
        double want = 0, size = 0;
        for (size_t c = 0; c < shape.cols; ++c) {
          const double product = static_cast<double>(row[c]) * codes[i * padded + c] *
                                 static_cast<double>(scales[(i * padded + c) / 32]);
          want += product;
          size += std::fabs(product);
        }
        // Each group: two products and a sum; unpack_row rounds once more.
        const double bound = size * kEpsilon * (4 + static_cast<double>(padded) / 32);
        const double error = std::fabs(static_cast<double>(y[i * shape.rows + r]) - want);
        ASSERT_LE(error, bound);
        worst = std::max(worst, error / bound);
      }
    }
  }
  std::printf("%zu products, largest error %.2f of the bound\n", compared, worst);
  EXPECT_GT(compared, 200u);
}

TEST(ScalarKernels, FloatProductsAreWithinTheBoundOfSequentialSums) {
  for (const NumberFormat f : {NumberFormat::kF32, NumberFormat::kF16, NumberFormat::kBf16}) {
    const MatrixShape shape = {21, 67, f, 0};
    const Planes w = pack(shape, random_floats(21 * 67, 5, 1.0f));
    const std::vector<float> x = random_floats(2 * 67, 6, 1.0f);
    std::vector<float> y(2 * 21);
    matmul_floats_scalar(shape, w.codes.data(), 0, 2, x.data(), 2, y.data(), 21);
    std::vector<float> row(67);
    for (size_t r = 0; r < 21; ++r) {
      unpack_row(shape, w.codes.data(), nullptr, r, row.data());
      for (size_t i = 0; i < 2; ++i) {
        double want = 0, size = 0;
        for (size_t c = 0; c < 67; ++c) {
          want += static_cast<double>(row[c]) * static_cast<double>(x[i * 67 + c]);
          size += std::fabs(static_cast<double>(row[c]) * static_cast<double>(x[i * 67 + c]));
        }
        ASSERT_LE(std::fabs(static_cast<double>(y[i * 21 + r]) - want), size * kEpsilon * 68);
      }
    }
  }
}

TEST(ScalarKernels, ProductsWriteOnlyTheTilesAskedFor) {
  const MatrixShape shape = {40, 32, NumberFormat::kInt8, 0};
  const Planes w = pack(shape, random_floats(40 * 32, 7, 1.0f));
  std::vector<int8_t> x(32, 1);
  const float x_scale = 1.0f;
  std::vector<float> y(40, -7.0f);
  const int32_t sum = 32;
  const QuantizedRows rows = {x.data(), &x_scale, &sum, 1};
  matmul_codes_scalar(shape, w.codes.data(), w.scales.data(), 1, 2, rows, y.data(), 40);
  for (size_t r = 0; r < 40; ++r) EXPECT_EQ(y[r] == -7.0f, r < 16 || r >= 32) << r;
}

TEST(ScalarKernels, RmsNormDividesByTheRootMeanSquare) {
  for (const size_t n : {1u, 15u, 16u, 17u, 80u, 2048u}) {
    const std::vector<float> x = random_floats(n, 8, 5.0f);
    const std::vector<float> weight = random_floats(n, 9, 1.0f);
    std::vector<float> y(n);
    rms_norm_scalar(x.data(), weight.data(), n, 1e-5f, y.data());
    double squares = 0;
    for (const float v : x) squares += static_cast<double>(v) * static_cast<double>(v);
    const double r = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
    for (size_t i = 0; i < n; ++i) {
      const double want = static_cast<double>(x[i]) * r * static_cast<double>(weight[i]);
      // n / 16 + 4 roundings of the sum, halved by the root, and five more.
      const double bound = std::fabs(want) * kEpsilon * (static_cast<double>(n) / 16 + 10);
      ASSERT_LE(std::fabs(static_cast<double>(y[i]) - want), bound);
    }
  }
}

TEST(ScalarKernels, RopeRotatesPairsHalfAHeadApart) {
  std::vector<float> x = {1, 0, 0, 2, 3, 0, 0, 0};  // two heads of four
  const std::vector<float> cos = {0.0f, 1.0f};
  const std::vector<float> sin = {1.0f, 0.0f};
  rope_scalar(x.data(), 2, 4, cos.data(), sin.data());
  EXPECT_EQ(x, (std::vector<float>{0, 0, 1, 2, 0, 0, 3, 0}));
}

TEST(ScalarKernels, SiluMulIsGateTimesItsSigmoidTimesUp) {
  std::vector<float> gate = {-100.0f, -3.0f, 0.0f, 0.7f, 50.0f, 200.0f};
  const std::vector<float> before = gate;
  const std::vector<float> up = {1, 2, 3, 4, 5, 6};
  silu_mul_scalar(gate.data(), up.data(), gate.size());
  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = static_cast<double>(before[i]);
    const double want = g / (1 + std::exp(-g)) * static_cast<double>(up[i]);
    // exp within 2 ulp (4 roundings), a sum, a quotient, a product.
    EXPECT_LE(std::fabs(static_cast<double>(gate[i]) - want),
              std::fabs(want) * kEpsilon * 8 + 1e-36);
  }
}

TEST(ScalarKernels, LayerNormHasMeanZeroAndVarianceOneTimesWeightsPlusBiases) {
  for (const size_t n : {1u, 7u, 64u, 1000u}) {
    const std::vector<float> x = random_floats(n, 8, 5.0f);
    const std::vector<float> weight_bias = random_floats(2 * n, 9, 1.0f);
    std::vector<float> y(n);
    kScalarVariants.layer_norm(x.data(), weight_bias.data(), n, 1e-5f, y.data());
    double mean = 0;
    for (const float v : x) mean += static_cast<double>(v) / static_cast<double>(n);
    double variance = 0;
    for (const float v : x) {
      const double d = static_cast<double>(v) - mean;
      variance += d * d / static_cast<double>(n);
    }
    const double r = 1 / std::sqrt(variance + 1e-5);
    for (size_t i = 0; i < n; ++i) {
      const double d = static_cast<double>(x[i]) - mean;
      const auto weight = static_cast<double>(weight_bias[i]);
      const double want = d * r * weight + static_cast<double>(weight_bias[n + i]);
      // Roundings of both sums, n / 16 + 4 each, of inputs up to 5, and six more.
      const double bound = kEpsilon * (static_cast<double>(n) / 8 + 14) * (5 * r + std::fabs(want));
      ASSERT_LE(std::fabs(static_cast<double>(y[i]) - want), bound) << n;
    }
  }
}

// An activation in double precision, and how many roundings the kernel's value has.
struct Activation {
  format::Activation activation;
  double (*act)(double);
  double roundings;
};
constexpr double kPi = 3.14159265358979323846;
constexpr Activation kActivations[] = {
    {format::Activation::kSilu, [](double v) { return v / (1 + std::exp(-v)); }, 8},
    {format::Activation::kGelu,
     [](double v) {
       return 0.5 * v * (1 + std::tanh(std::sqrt(2 / kPi) * (v + 0.044715 * v * v * v)));
     },
     // Roundings of the exponent count as often as it is large, up to 88 here.
     8 + 6 * 88},
    {format::Activation::kReluSquared, [](double v) { return v > 0 ? v * v : 0.0; }, 2},
};
static_assert(std::size(kActivations) + 1 == format::kActivations);  // the clamped one has a test

TEST(ScalarKernels, ActivationsAreThoseOfTheirNames) {
  for (const Activation& row : kActivations) {
    const size_t act = static_cast<size_t>(row.activation) - 1;
    for (float v = -30.0f; v < 30.0f; v += 0.0173f) {
      for (const bool is_gated : {true, false}) {
        float gate = v;
        const float up = 1.7f;
        kScalarVariants.activate[act](&gate, is_gated ? &up : nullptr, 1, 0.0f, 0.0f);
        const double factor = is_gated ? static_cast<double>(up) : 1.0;
        const double want = row.act(static_cast<double>(v)) * factor;
        // 1 + tanh(u) has no more than double's digits after the point.
        const double of_reference = 1e-15 * std::fabs(static_cast<double>(v)) * factor;
        ASSERT_LE(std::fabs(static_cast<double>(gate) - want),
                  std::fabs(want) * kEpsilon * row.roundings + of_reference)
            << act << " of " << v;
      }
    }
  }
}

TEST(ScalarKernels, ClampedSwigluLimitsBothOfItsInputs) {
  constexpr size_t kClamped = 3;
  const auto of = [](float gate, float up) {
    kScalarVariants.activate[kClamped](&gate, &up, 1, 1.702f, 7.0f);
    return gate;
  };
  const auto want = [](double g, double w) { return (w + 1) * g / (1 + std::exp(-1.702 * g)); };
  EXPECT_NEAR(of(2.0f, 3.0f), want(2, 3), 1e-5);
  EXPECT_NEAR(of(-2.0f, -3.0f), want(-2, -3), 1e-6);
  EXPECT_EQ(of(9.0f, 3.0f), of(7.0f, 3.0f));
  EXPECT_EQ(of(2.0f, 30.0f), of(2.0f, 7.0f));
  EXPECT_EQ(of(2.0f, -30.0f), of(2.0f, -7.0f));
}

TEST(ScalarKernels, CapIsTanhAndClipIsALimit) {
  for (float v = -90.0f; v < 90.0f; v += 0.0173f) {
    float x = v;
    kScalarVariants.cap(&x, 1, 30.0f);
    // Near zero the error is that of exp, which is near 1.
    EXPECT_NEAR(x, 30 * std::tanh(static_cast<double>(v) / 30), 30 * 6 * kEpsilon) << v;
  }
  std::vector<float> x = {-3.0f, -2.0f, -1.0f, 0.0f, 1.5f, 2.5f, 1e30f};
  kScalarVariants.clip(x.data(), x.size(), 2.0f);
  EXPECT_EQ(x, (std::vector<float>{-2.0f, -2.0f, -1.0f, 0.0f, 1.5f, 2.0f, 2.0f}));
}

TEST(ScalarKernels, StatesDecayAndTakeProductsOfKeysAndValues) {
  std::vector<float> state = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};  // two keys, three values
  const std::vector<float> key = {10.0f, -1.0f};
  const std::vector<float> value = {1.0f, 0.0f, 2.0f};
  const std::vector<float> query = {1.0f, 2.0f};
  std::vector<float> out(3, 99.0f);
  kScalarStates.recall_values(state.data(), key.data(), 2, 3, out.data());
  EXPECT_EQ(out, (std::vector<float>{6.0f, 15.0f, 24.0f}));
  kScalarStates.advance_state(state.data(), {0.5f, key.data(), value.data(), query.data()}, 2, 3,
                              state.data(), out.data());
  EXPECT_EQ(state, (std::vector<float>{10.5f, 1.0f, 21.5f, 1.0f, 2.5f, 1.0f}));
  EXPECT_EQ(out, (std::vector<float>{12.5f, 6.0f, 23.5f}));
}

}  // namespace
}  // namespace cria
