// XNNPACK's products of our weights against the same products in double precision.
#include "runtime/backends/xnnpack/xnnpack_operator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <random>
#include <vector>

#include "quant/numbers/float16.h"
#include "runtime/backends/xnnpack/xnnpack_unpack.h"
#include "tests/support/test_session.h"

namespace cria::xnnpack {
namespace {

using format::NumberFormat;

constexpr uint32_t kSeed = 4201;
constexpr double kEpsilon = 0x1p-24;  // half a unit in the last place of 1.0f
constexpr size_t kSlack = XNN_EXTRA_BYTES;
constexpr float kCanary = 12345.0f;

// Row-major weights and what XNNPACK gets of them.
struct Weights {
  MatrixShape shape;
  std::vector<float> values;  // [rows][cols], dequantized
  std::vector<uint8_t> source_codes;
  std::vector<uint8_t> source_scales;
};

// Fills one tile of random weights, one group (int4) or row (int8) in eight with scale zero, and
// unpacks it to where it belongs in the source.
void add_tile(size_t first_row, std::mt19937* random, Weights* w) {
  const MatrixShape& shape = w->shape;
  const size_t n_rows = std::min<size_t>(shape.rows - first_row, kTileRows);
  const size_t padded = padded_cols(shape);
  std::vector<uint8_t> tile_codes(tile_code_bytes(shape));
  std::vector<uint8_t> tile_scales(tile_scale_bytes(shape));
  uint8_t* codes = w->source_codes.data() + first_row * source_row_bytes(shape);
  std::uniform_real_distribution<float> uniform(0.01f, 0.2f);
  std::normal_distribution<float> normal;
  const auto scale = [&] { return (*random)() % 8 == 0 ? 0.0f : uniform(*random); };
  const auto random_codes = [&](int low, int high) {
    std::vector<int8_t> out(n_rows * padded, 0);
    for (size_t i = 0; i < out.size(); ++i) {
      if (i % padded < shape.cols) {
        out[i] = static_cast<int8_t>(std::uniform_int_distribution<int>(low, high)(*random));
      }
    }
    return out;
  };
  if (shape.number_format == NumberFormat::kInt4) {
    const size_t n_groups = padded / shape.group_size;
    std::vector<uint16_t> scales(n_rows * n_groups);
    for (uint16_t& bits : scales) bits = f32_to_bf16(scale());
    pack_group_tile(shape, random_codes(-8, 7).data(), scales.data(), n_rows, tile_codes.data(),
                    tile_scales.data());
    unpack_int4_tile(shape, tile_codes.data(), tile_scales.data(), n_rows, codes,
                     reinterpret_cast<uint16_t*>(w->source_scales.data()) + first_row * n_groups);
  } else if (shape.number_format == NumberFormat::kInt8) {
    std::vector<float> scales(n_rows);
    for (float& value : scales) value = scale();
    pack_int8_tile(shape, random_codes(-127, 127).data(), scales.data(), n_rows, tile_codes.data(),
                   tile_scales.data());
    unpack_int8_tile(shape, tile_codes.data(), tile_scales.data(), n_rows,
                     reinterpret_cast<int8_t*>(codes),
                     reinterpret_cast<float*>(w->source_scales.data()) + first_row);
  } else {
    std::vector<float> values(n_rows * shape.cols);
    for (float& value : values) value = normal(*random);
    pack_float_tile(shape, values.data(), n_rows, tile_codes.data());
    unpack_float_tile(shape, tile_codes.data(), n_rows, reinterpret_cast<float*>(codes));
  }
  for (size_t r = 0; r < n_rows; ++r) {
    unpack_row(shape, tile_codes.data(), tile_scales.data(), r,
               w->values.data() + (first_row + r) * shape.cols);
  }
}

Weights random_weights(const MatrixShape& shape, std::mt19937* random) {
  Weights w = {};
  w.shape = shape;
  w.values.resize(size_t{shape.rows} * shape.cols);
  w.source_codes.resize(shape.rows * source_row_bytes(shape));
  w.source_scales.resize(tile_count(shape.rows) * tile_scale_bytes(shape));
  for (size_t row = 0; row < shape.rows; row += kTileRows) add_tile(row, random, &w);
  return w;
}

// Activations of one batch: floats as they are, or codes with one scale a row.
struct Activations {
  std::vector<float> x;  // [n_rows][cols] and slack, exactly codes * scale for integer weights
  std::vector<int8_t> codes;
  std::vector<xnn_quantization_params> params;
};

Activations random_activations(const MatrixShape& shape, size_t n_rows, std::mt19937* random) {
  Activations a = {};
  const size_t padded = padded_cols(shape);
  std::normal_distribution<float> normal;
  a.x.assign(n_rows * shape.cols + kSlack, 0.0f);
  a.codes.assign(n_rows * padded + kSlack, 0);
  a.params.resize(n_rows + kRepeatedParams);
  for (size_t row = 0; row < n_rows; ++row) {
    // Every row another scale, and every fifth a row of zeros with scale zero.
    a.params[row] = {.zero_point = 0, .scale = row % 5 == 4 ? 0.0f : 0.5f + float(row)};
    for (size_t col = 0; col < shape.cols; ++col) {
      if (!is_integer(shape)) {
        a.x[row * shape.cols + col] = normal(*random);
        continue;
      }
      const int code = row % 5 == 4 ? 0 : int((*random)() % 255) - 127;
      a.codes[row * padded + col] = static_cast<int8_t>(code);
      a.x[row * shape.cols + col] = static_cast<float>(code) * a.params[row].scale;
    }
  }
  std::fill(a.params.begin() + std::ptrdiff_t(n_rows), a.params.end(), a.params[n_rows - 1]);
  return a;
}

// What a product may be off by, relative to the sum of the magnitudes of its terms. Integer sums of
// a group are exact; each has a product with its scale and a sum, and there are three products
// more at most; the rounded sum of int8 has no partial sums. A float sum rounds in every term.
double relative_bound(const MatrixShape& shape) {
  constexpr double kLastProducts = 4;
  const size_t cols = padded_cols(shape);
  switch (shape.number_format) {
    case NumberFormat::kInt4:
      return (2.0 * double(cols) / double(shape.group_size) + kLastProducts) * kEpsilon;
    case NumberFormat::kInt8:
      return kLastProducts * kEpsilon;
    default:
      return (double(cols) + kLastProducts) * kEpsilon;
  }
}

struct Tally {
  size_t n_compared = 0;
  double worst = 0;   // error / allowed
  double widest = 0;  // allowed / sum of magnitudes
};

void compare(const Weights& w, const Activations& a, size_t n_rows, const std::vector<float>& y,
             Tally* tally) {
  const MatrixShape& shape = w.shape;
  const double bound = relative_bound(shape);
  tally->widest = std::max(tally->widest, bound);
  for (size_t i = 0; i < n_rows; ++i) {
    for (size_t row = 0; row < shape.rows; ++row) {
      double sum = 0;
      double magnitude = 0;
      for (size_t col = 0; col < shape.cols; ++col) {
        const double term = static_cast<double>(w.values[row * shape.cols + col]) *
                            static_cast<double>(a.x[i * shape.cols + col]);
        sum += term;
        magnitude += std::fabs(term);
      }
      const double error = std::fabs(sum - static_cast<double>(y[i * shape.rows + row]));
      ASSERT_LE(error, bound * magnitude)
          << "rows " << shape.rows << " cols " << shape.cols << " format "
          << int(shape.number_format) << " group " << shape.group_size << " batch " << n_rows
          << " at " << i << ", " << row << " seed " << kSeed;
      if (magnitude > 0) tally->worst = std::max(tally->worst, error / (bound * magnitude));
      ++tally->n_compared;
    }
  }
}

Region region_of(test::AlignedMemory* memory) {
  return {.base = static_cast<uint8_t*>(memory->data()),
          .capacity = memory->size(),
          .n_allowed = 0,
          .used = 0,
          .n_asked = 0};
}

// A matrix packed as one slice, moved to another place, and two operators on it.
struct Packed {
  Packed(const Weights& w, const SliceBytes& planned)
      : memory(static_cast<size_t>(planned.packed)),
        objects{test::AlignedMemory(static_cast<size_t>(planned.object)),
                test::AlignedMemory(static_cast<size_t>(planned.object))} {
    make(w, planned);
  }

  void make(const Weights& w, const SliceBytes& planned) {
    ASSERT_LE(planned.object, kMostObjectBytes);
    {
      test::AlignedMemory first_place(memory.size());
      test::AlignedMemory packing_object(kMostObjectBytes);
      std::vector<uint8_t> codes = w.source_codes;
      std::vector<uint8_t> scales = w.source_scales;
      Region region = region_of(&first_place);
      const void* slice = nullptr;
      ASSERT_EQ(pack_slice(w.shape, w.shape.rows, {.codes = codes.data(), .scales = scales.data()},
                           static_cast<uint8_t*>(packing_object.data()), &region, &slice),
                Status::kOk);
      ASSERT_EQ(region.used, planned.packed);
      ASSERT_EQ(slice, first_place.data());
      std::memcpy(memory.data(), first_place.data(), memory.size());
    }
    for (size_t i = 0; i < std::size(operators); ++i) {
      Region region = region_of(&objects[i]);
      ASSERT_EQ(create_operator(w.shape, w.shape.rows, memory.data(), &region, &operators[i]),
                Status::kOk);
      ASSERT_EQ(region.used, planned.object);
    }
  }

  test::AlignedMemory memory;
  test::AlignedMemory objects[2];
  xnn_operator_t operators[2] = {};
};

void check_shape(const MatrixShape& shape, std::mt19937* random, Tally* tally) {
  const Weights w = random_weights(shape, random);
  SliceBytes planned = {};
  ASSERT_EQ(measure_slice(shape, shape.rows, &planned), Status::kOk);
  Packed packed(w, planned);
  if (testing::Test::HasFatalFailure()) return;
  const std::vector<uint8_t> before(
      static_cast<const uint8_t*>(packed.memory.data()),
      static_cast<const uint8_t*>(packed.memory.data()) + packed.memory.size());
  // 15 and 29 leave one row over for the 14-row kernel.
  for (const size_t n_rows :
       {size_t{1}, size_t{2}, size_t{7}, size_t{15}, size_t{29}, size_t{64}}) {
    const Activations a = random_activations(shape, n_rows, random);
    std::vector<float> y(n_rows * shape.rows + 1, kCanary);
    const OperatorInput input = {
        .x = a.x.data(), .codes = a.codes.data(), .params = a.params.data(), .n_rows = n_rows};
    // Both have the same weights; each is shaped for itself.
    std::vector<float> y_of_other(y.size(), kCanary);
    ASSERT_EQ(reshape_operator(shape, packed.operators[0], n_rows), Status::kOk);
    ASSERT_EQ(reshape_operator(shape, packed.operators[1], n_rows), Status::kOk);
    ASSERT_EQ(run_operator(shape, packed.operators[0], input, y.data()), Status::kOk);
    ASSERT_EQ(run_operator(shape, packed.operators[1], input, y_of_other.data()), Status::kOk);
    EXPECT_EQ(y.back(), kCanary);
    EXPECT_EQ(std::memcmp(y.data(), y_of_other.data(), y.size() * sizeof(float)), 0);
    compare(w, a, n_rows, y, tally);
    if (testing::Test::HasFatalFailure()) return;
  }
  EXPECT_EQ(std::memcmp(packed.memory.data(), before.data(), before.size()), 0)
      << "running changes no packed weight";
}

void check_format(NumberFormat number_format, uint16_t group_size) {
  ASSERT_EQ(initialize(), Status::kOk);
  std::mt19937 random(kSeed);
  Tally tally;
  for (const uint32_t rows : {1u, 2u, 3u, 7u, 8u, 15u, 16u, 17u, 24u, 31u, 32u, 33u}) {
    for (const uint32_t cols : {1u, 2u, 31u, 32u, 33u, 64u, 100u, 128u, 172u, 300u}) {
      check_shape({rows, cols, number_format, group_size}, &random, &tally);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
  // A long sum, as in a real model.
  check_shape({16, 8192, number_format, group_size}, &random, &tally);
  std::printf("bound at most %.2e of the terms' magnitudes; worst error %.3f of the bound\n",
              tally.widest, tally.worst);
  EXPECT_LE(tally.widest, 1e-3);
  EXPECT_GT(tally.n_compared, 0u);
}

TEST(XnnpackOperator, Int4Group32IsWithinTheBound) { check_format(NumberFormat::kInt4, 32); }
TEST(XnnpackOperator, Int4Group64IsWithinTheBound) { check_format(NumberFormat::kInt4, 64); }
TEST(XnnpackOperator, Int4Group128IsWithinTheBound) { check_format(NumberFormat::kInt4, 128); }
TEST(XnnpackOperator, Int8IsWithinTheBound) { check_format(NumberFormat::kInt8, 0); }
TEST(XnnpackOperator, F32IsWithinTheBound) { check_format(NumberFormat::kF32, 0); }
TEST(XnnpackOperator, F16IsWithinTheBound) { check_format(NumberFormat::kF16, 0); }
TEST(XnnpackOperator, Bf16IsWithinTheBound) { check_format(NumberFormat::kBf16, 0); }

// In every format: XNNPACK has code of its own for each.
TEST(XnnpackOperator, PackingAndCreationFailCleanlyInTooSmallARegion) {
  ASSERT_EQ(initialize(), Status::kOk);
  std::mt19937 random(kSeed);
  size_t refused = 0;
  for (const MatrixShape& shape :
       {MatrixShape{64, 64, NumberFormat::kInt4, 32}, MatrixShape{64, 64, NumberFormat::kInt8, 0},
        MatrixShape{64, 64, NumberFormat::kF32, 0}}) {
    const Weights w = random_weights(shape, &random);
    const SliceSource source = {.codes = w.source_codes.data(), .scales = w.source_scales.data()};
    SliceBytes planned = {};
    ASSERT_EQ(measure_slice(shape, shape.rows, &planned), Status::kOk);
    test::AlignedMemory memory(planned.packed);
    test::AlignedMemory object(kMostObjectBytes);
    auto* const base = static_cast<uint8_t*>(memory.data());
    auto* const of_object = static_cast<uint8_t*>(object.data());
    const void* packed = nullptr;
    for (uint64_t capacity = 0; capacity < planned.packed; capacity += format::kAlignment) {
      Region region = {.base = base, .capacity = capacity, .n_allowed = 0, .used = 0, .n_asked = 0};
      ASSERT_EQ(pack_slice(shape, shape.rows, source, of_object, &region, &packed),
                Status::kBackendFailed);
      ++refused;
    }
    Region whole = region_of(&memory);
    ASSERT_EQ(pack_slice(shape, shape.rows, source, of_object, &whole, &packed), Status::kOk);
    for (uint64_t capacity = 0; capacity < planned.object; capacity += format::kAlignment) {
      Region region = {
          .base = of_object, .capacity = capacity, .n_allowed = 0, .used = 0, .n_asked = 0};
      xnn_operator_t op = nullptr;
      ASSERT_EQ(create_operator(shape, shape.rows, packed, &region, &op), Status::kBackendFailed);
      ++refused;
    }
  }
  EXPECT_GT(refused, 100u);
}

// The packed weights of a matrix whose rows are packed in slices do not depend on what was packed
// before, nor on the memory they are packed into.
TEST(XnnpackOperator, PackingGivesTheSameBytesEveryTime) {
  ASSERT_EQ(initialize(), Status::kOk);
  std::mt19937 random(kSeed);
  for (const MatrixShape& shape :
       {MatrixShape{33, 100, NumberFormat::kInt4, 64}, MatrixShape{33, 100, NumberFormat::kInt8, 0},
        MatrixShape{33, 100, NumberFormat::kF32, 0}}) {
    const Weights w = random_weights(shape, &random);
    const SliceSource source = {.codes = w.source_codes.data(), .scales = w.source_scales.data()};
    SliceBytes planned = {};
    ASSERT_EQ(measure_slice(shape, shape.rows, &planned), Status::kOk);
    test::AlignedMemory one(planned.packed), other(planned.packed), object(kMostObjectBytes);
    std::memset(one.data(), 0, one.size());
    std::memset(other.data(), 0, other.size());
    for (test::AlignedMemory* memory : {&one, &other}) {
      Region region = region_of(memory);
      const void* packed = nullptr;
      ASSERT_EQ(pack_slice(shape, shape.rows, source, static_cast<uint8_t*>(object.data()), &region,
                           &packed),
                Status::kOk);
      ASSERT_EQ(packed, memory->data());
      std::memset(object.data(), 0x3c, object.size());
    }
    EXPECT_EQ(std::memcmp(one.data(), other.data(), one.size()), 0);
  }
}

TEST(XnnpackOperator, OutsideARegionXnnpackGetsNoMemory) {
  ASSERT_EQ(initialize(), Status::kOk);
  const float weight = 1.0f;
  xnn_operator_t op = nullptr;
  EXPECT_EQ(xnn_create_fully_connected_nc_f32(1, 1, 1, 1, &weight, nullptr, -INFINITY, INFINITY, 0,
                                              nullptr, nullptr, &op),
            xnn_status_out_of_memory);
}

TEST(XnnpackOperator, MeasuringRefusesMoreScalesThanItCanShow) {
  ASSERT_EQ(initialize(), Status::kOk);
  SliceBytes n_bytes = {};
  EXPECT_EQ(measure_slice({32, 65536, NumberFormat::kInt4, 32}, 32, &n_bytes),
            Status::kUnsupported);
  EXPECT_EQ(measure_slice({16, 65536, NumberFormat::kInt4, 32}, 16, &n_bytes), Status::kOk);
}

}  // namespace
}  // namespace cria::xnnpack
