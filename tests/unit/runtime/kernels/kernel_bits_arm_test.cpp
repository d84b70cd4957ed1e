// Every Arm kernel that this CPU can run must return the scalar reference's bits, at awkward sizes
// and with extreme values, and touch nothing outside its arrays. Emulators run it for the CPUs that
// lack an ISA as well (toolchains/): there the ISA's tests skip.
//
// NaNs count as equal whatever their payload, which IEEE 754 leaves open. Armv7's Advanced SIMD
// takes subnormals for zeros, so there floats stay within ranges whose products are normal;
// AArch64 sees every bit pattern.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "quant/tile16.h"
#include "runtime/kernels/kernels.h"
#include "tests/support/isa_list.h"

namespace cria {
namespace {

using format::NumberFormat;

#if defined(__arm__)
constexpr bool kHasSubnormals = false;
#else
constexpr bool kHasSubnormals = true;
#endif

using test::IsaRow;

// All but the scalar ones, whose bits are wanted.
[[maybe_unused]] std::vector<IsaRow> arm_isas() {
  std::vector<IsaRow> rows = test::built_isas();
  rows.erase(rows.begin());
  return rows;
}

[[maybe_unused]] bool cpu_has(const IsaRow& isa) {
  const std::vector<IsaRow> rows = test::runnable_isas();
  return std::any_of(rows.begin(), rows.end(), [&](const IsaRow& r) { return r.isa == isa.isa; });
}

enum class Side { kEnd, kBegin };

// An array that touches an unreadable page, behind it or before it.
template <class T>
class Guarded {
 public:
  Guarded(size_t n, Side side) : n_(n) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = round_up(n * sizeof(T) + 1, page);
    mapped_bytes_ = bytes + 2 * page;
    void* mapped = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) std::abort();
    base_ = static_cast<uint8_t*>(mapped);
    if (mprotect(base_ + page, bytes, PROT_READ | PROT_WRITE) != 0) std::abort();
    uint8_t* first = side == Side::kBegin ? base_ + page : base_ + page + bytes - n * sizeof(T);
    data_ = reinterpret_cast<T*>(first);
  }
  Guarded(const std::vector<T>& values, Side side) : Guarded(values.size(), side) {
    if (n_ != 0) std::memcpy(data_, values.data(), n_ * sizeof(T));
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, mapped_bytes_); }
  T* data() { return data_; }
  std::vector<T> copy() const { return {data_, data_ + n_}; }

 private:
  size_t n_;
  size_t mapped_bytes_;
  uint8_t* base_;
  T* data_;
};

// What the floats of a case are like.
enum class Fill { kModerate, kSigned, kSpecial, kAnyBits };

class KernelBitsArm : public testing::TestWithParam<IsaRow> {
 protected:
  void SetUp() override {
    if (!cpu_has(GetParam())) GTEST_SKIP() << "this CPU has no " << GetParam().name;
    ASSERT_TRUE(select_kernels(GetParam().mask, &kernels_));
    ASSERT_STREQ(kernels_.isa, GetParam().name);
  }
  void TearDown() override { EXPECT_TRUE(IsSkipped() || compared_ > 0); }

  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  float random_float(Fill fill) {
    const float sign = below(2) == 0 ? 1.0f : -1.0f;
    const float fraction = 1.0f + static_cast<float>(below(1u << 23)) * 0x1p-23f;
    if (fill == Fill::kAnyBits) {
      return std::bit_cast<float>(static_cast<uint32_t>(random_()));
    }
    if (fill == Fill::kSpecial && below(8) == 0) {
      constexpr float kInfinity = std::numeric_limits<float>::infinity();
      constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
      constexpr float kSpecial[] = {0.0f, -0.0f, kInfinity, -kInfinity, kNan};
      return kSpecial[below(std::size(kSpecial))];
    }
    const int spread = fill == Fill::kModerate ? 4 : 20;
    const int exponent = static_cast<int>(below(2 * static_cast<size_t>(spread))) - spread;
    return sign * std::ldexp(fraction, exponent);
  }

  std::vector<float> floats(size_t n, Fill fill) {
    std::vector<float> values(n);
    for (float& v : values) v = random_float(fill);
    return values;
  }

  // Codes -127 ... 127: random, or all as far from zero as they go.
  std::vector<int8_t> codes(size_t n, Fill fill) {
    std::vector<int8_t> values(n);
    for (int8_t& v : values) {
      if (fill == Fill::kModerate) {
        v = static_cast<int8_t>(static_cast<int>(below(255)) - 127);
      } else {
        v = fill == Fill::kSigned && below(2) == 0 ? -127 : 127;
      }
    }
    return values;
  }

  Side side() { return below(2) == 0 ? Side::kEnd : Side::kBegin; }

  void expect_same(const std::vector<float>& want, const std::vector<float>& got,
                   const std::string& what) {
    ASSERT_EQ(want.size(), got.size());
    for (size_t i = 0; i < want.size(); ++i, ++compared_) {
      if (std::isnan(want[i]) && std::isnan(got[i])) continue;
      ASSERT_EQ(std::bit_cast<uint32_t>(want[i]), std::bit_cast<uint32_t>(got[i]))
          << what << " element " << i << ": " << want[i] << " " << got[i];
    }
  }

  void compare_integer_product(const MatrixShape& shape, size_t n_rows, Fill fill);
  void compare_float_product(const MatrixShape& shape, size_t n_rows, Fill fill);

  Kernels kernels_ = {};
  std::mt19937 random_{20261120};
  size_t compared_ = 0;
};

std::string describe(const MatrixShape& shape, size_t n_rows) {
  return std::to_string(shape.rows) + "x" + std::to_string(shape.cols) + " group " +
         std::to_string(shape.group_size) + " rows of x " + std::to_string(n_rows);
}

constexpr Fill kFills[] = {Fill::kModerate, Fill::kSigned, Fill::kSpecial, Fill::kAnyBits};
constexpr size_t kCounts[] = {1,  2,  3,  4,  5,  7,  8,  9,   12,  15,  16,  17,  23,
                              31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 129, 255, 300};

constexpr uint16_t kGroups[] = {0, 32, 64, 128};  // int8, then int4

// A fill that this target's float arithmetic can take.
Fill allowed(Fill fill) {
  return fill == Fill::kAnyBits && !kHasSubnormals ? Fill::kSpecial : fill;
}

void KernelBitsArm::compare_integer_product(const MatrixShape& shape, size_t n_rows, Fill fill) {
  const bool is_int4 = shape.number_format == NumberFormat::kInt4;
  const size_t padded = padded_cols(shape);
  const size_t n_groups = padded / kActivationGroup;
  std::vector<uint8_t> w(static_cast<size_t>(code_plane_bytes(shape)));
  for (uint8_t& byte : w) {
    // int4: two codes of 7 or of -8. int8: as codes().
    const auto code = static_cast<uint8_t>(codes(1, fill)[0]);
    byte = is_int4 ? static_cast<uint8_t>(fill == Fill::kModerate ? below(256)
                                          : code == 127           ? 0xff
                                                                  : 0x00)
                   : code;
  }
  std::vector<uint8_t> w_scales(static_cast<size_t>(scale_plane_bytes(shape)));
  const size_t scale_bytes = is_int4 ? 2 : 4;
  for (size_t i = 0; i < w_scales.size(); i += scale_bytes) {
    float scale = std::fabs(random_float(Fill::kSigned));
    if (fill == Fill::kSpecial) scale = below(4) == 0 ? 0.0f : scale;
    if (fill == Fill::kAnyBits) scale = below(2) == 0 ? 0x1.fep127f : 0x1p-64f;
    const uint32_t bits = std::bit_cast<uint32_t>(scale);
    std::memcpy(&w_scales[i], reinterpret_cast<const uint8_t*>(&bits) + 4 - scale_bytes,
                scale_bytes);
  }
  const std::vector<int8_t> x = codes(n_rows * padded, fill);
  std::vector<float> x_scales(n_rows * n_groups);
  std::vector<int32_t> sums(n_rows * n_groups);
  for (size_t i = 0; i < x_scales.size(); ++i) {
    x_scales[i] = std::fabs(random_float(Fill::kSigned));
    if (fill == Fill::kSpecial && below(4) == 0) x_scales[i] = 0.0f;
    for (size_t k = 0; k < kActivationGroup; ++k) sums[i] += x[i * kActivationGroup + k];
  }
  Guarded<uint8_t> g_w(w, side());
  Guarded<uint8_t> g_scales(w_scales, side());
  Guarded<int8_t> g_x(x, side());
  Guarded<float> g_x_scales(x_scales, side());
  Guarded<int32_t> g_sums(sums, side());
  const QuantizedRows rows = {g_x.data(), g_x_scales.data(), g_sums.data(), n_rows};
  const size_t stride = shape.rows;
  const size_t n_tiles = tile_count(shape.rows);
  const size_t first = below(n_tiles);
  const std::vector<float> before(n_rows * stride, -7.0f);
  Guarded<float> want(before, Side::kEnd);
  Guarded<float> got(before, side());
  const auto scalar = is_int4 ? kScalarKernels.matmul_q4_q8 : kScalarKernels.matmul_q8_q8;
  const auto kernel = is_int4 ? kernels_.matmul_q4_q8 : kernels_.matmul_q8_q8;
  scalar(shape, g_w.data(), g_scales.data(), first, n_tiles, rows, want.data(), stride);
  kernel(shape, g_w.data(), g_scales.data(), first, n_tiles, rows, got.data(), stride);
  expect_same(want.copy(), got.copy(), describe(shape, n_rows));
}

void KernelBitsArm::compare_float_product(const MatrixShape& shape, size_t n_rows, Fill fill) {
  const size_t n_weights = tile_count(shape.rows) * kTileRows * shape.cols;
  std::vector<uint8_t> w(static_cast<size_t>(code_plane_bytes(shape)));
  const size_t bytes = w.size() / n_weights;
  for (size_t i = 0; i < w.size(); i += bytes) {
    uint32_t bits = std::bit_cast<uint32_t>(random_float(fill));
    // Halves of any bits have no subnormal among them once they are floats.
    if (shape.number_format == NumberFormat::kF16) bits = static_cast<uint32_t>(random_());
    std::memcpy(&w[i], reinterpret_cast<const uint8_t*>(&bits) + 4 - bytes, bytes);
  }
  Guarded<uint8_t> g_w(w, side());
  Guarded<float> x(floats(n_rows * shape.cols, fill), side());
  const size_t n_tiles = tile_count(shape.rows);
  const size_t first = below(n_tiles);
  const std::vector<float> before(n_rows * shape.rows, -7.0f);
  Guarded<float> want(before, Side::kEnd);
  Guarded<float> got(before, side());
  const auto pick = [&shape](const Kernels& k) {
    if (shape.number_format == NumberFormat::kF32) return k.matmul_f32_f32;
    return shape.number_format == NumberFormat::kF16 ? k.matmul_f16_f32 : k.matmul_bf16_f32;
  };
  pick(kScalarKernels)(shape, g_w.data(), first, n_tiles, x.data(), n_rows, want.data(),
                       shape.rows);
  pick(kernels_)(shape, g_w.data(), first, n_tiles, x.data(), n_rows, got.data(), shape.rows);
  expect_same(want.copy(), got.copy(), describe(shape, n_rows));
}

TEST_P(KernelBitsArm, IntegerProductsOfEveryHeight) {
  for (uint32_t rows = 1; rows <= 33; ++rows) {
    for (const uint16_t group : kGroups) {
      const NumberFormat f = group == 0 ? NumberFormat::kInt8 : NumberFormat::kInt4;
      const auto cols = static_cast<uint32_t>(kCounts[below(std::size(kCounts))]);
      const MatrixShape shape = {rows, cols, f, group};
      for (const Fill fill : kFills) compare_integer_product(shape, 1 + below(5), fill);
    }
  }
}

TEST_P(KernelBitsArm, IntegerProductsOfEveryNumberOfRowsAndManyWidths) {
  for (size_t n_rows = 0; n_rows <= 17; ++n_rows) {
    for (const uint16_t group : kGroups) {
      const NumberFormat f = group == 0 ? NumberFormat::kInt8 : NumberFormat::kInt4;
      // 1100 is more than kernels unpack at once.
      for (const uint32_t cols : {1u, 32u, 33u, 200u, 300u, 1100u}) {
        const auto rows = static_cast<uint32_t>(1 + below(33));
        compare_integer_product({rows, cols, f, group}, n_rows, kFills[below(4)]);
      }
    }
  }
}

TEST_P(KernelBitsArm, FloatProducts) {
  for (const NumberFormat f : {NumberFormat::kF32, NumberFormat::kF16, NumberFormat::kBf16}) {
    for (const Fill fill : kFills) {
      for (uint32_t rows = 1; rows <= 33; ++rows) {
        const auto cols = static_cast<uint32_t>(kCounts[below(std::size(kCounts))]);
        compare_float_product({rows, cols, f, 0}, below(10), allowed(fill));
      }
    }
  }
}

TEST_P(KernelBitsArm, QuantizedRows) {
  struct Padding {
    size_t n, n_padded, group;
  };
  std::vector<Padding> paddings;
  for (const size_t n : kCounts) {
    for (const size_t multiple : {32u, 64u, 128u})
      paddings.push_back({n, round_up(n, multiple), 32});
    paddings.push_back({n, n, n});
    paddings.push_back({n, round_up(n, 32), round_up(n, 32)});
  }
  for (const Padding& p : paddings) {
    for (const Fill fill : kFills) {
      for (const float size : {1.0f, 0x1p-39f}) {
        std::vector<float> values = floats(p.n, allowed(fill));
        for (float& v : values) v *= size;
        Guarded<float> x(values, side());
        const size_t n_groups = p.n_padded / p.group;
        Guarded<int8_t> want(p.n_padded, Side::kEnd), got(p.n_padded, side());
        Guarded<float> want_scales(n_groups, Side::kEnd), got_scales(n_groups, side());
        std::memset(want.data(), 99, p.n_padded);
        std::memset(got.data(), 99, p.n_padded);
        Guarded<int32_t> want_sums(n_groups, Side::kEnd), got_sums(n_groups, side());
        const bool wants_sums = below(4) != 0;
        kScalarKernels.quantize_row(x.data(), p.n, p.n_padded, p.group, want.data(),
                                    want_scales.data(), want_sums.data());
        kernels_.quantize_row(x.data(), p.n, p.n_padded, p.group, got.data(), got_scales.data(),
                              wants_sums ? got_sums.data() : nullptr);
        expect_same(want_scales.copy(), got_scales.copy(), "scales");
        ASSERT_EQ(want.copy(), got.copy());
        ASSERT_TRUE(!wants_sums || want_sums.copy() == got_sums.copy());
      }
    }
  }
}

TEST_P(KernelBitsArm, RmsNorm) {
  for (const size_t n : kCounts) {
    for (const Fill fill : kFills) {
      Guarded<float> x(floats(n, allowed(fill)), side());
      Guarded<float> weight(floats(n, Fill::kModerate), side());
      Guarded<float> want(n, Side::kEnd), got(n, side());
      kScalarKernels.rms_norm(x.data(), weight.data(), n, 1e-5f, want.data());
      kernels_.rms_norm(x.data(), weight.data(), n, 1e-5f, got.data());
      expect_same(want.copy(), got.copy(), "rms_norm");
    }
  }
}

TEST_P(KernelBitsArm, Rope) {
  for (const size_t half : kCounts) {
    for (const Fill fill : kFills) {
      const size_t n_heads = 1 + below(3);
      const std::vector<float> x = floats(n_heads * half * 2, allowed(fill));
      Guarded<float> cos(floats(half, Fill::kModerate), side());
      Guarded<float> sin(floats(half, Fill::kModerate), side());
      Guarded<float> want(x, Side::kEnd), got(x, side());
      kScalarKernels.rope(want.data(), n_heads, half * 2, cos.data(), sin.data());
      kernels_.rope(got.data(), n_heads, half * 2, cos.data(), sin.data());
      expect_same(want.copy(), got.copy(), "rope");
    }
  }
}

TEST_P(KernelBitsArm, SiluMul) {
  for (const size_t n : kCounts) {
    for (const Fill fill : kFills) {
      std::vector<float> gate = floats(n, allowed(fill));
      // Subnormal where e^gate is.
      for (float& g : gate) g = !kHasSubnormals && g < -80.0f ? -80.0f : g;
      Guarded<float> up(floats(n, Fill::kModerate), side());
      Guarded<float> want(gate, Side::kEnd), got(gate, side());
      kScalarKernels.silu_mul(want.data(), up.data(), n);
      kernels_.silu_mul(got.data(), up.data(), n);
      expect_same(want.copy(), got.copy(), "silu_mul");
    }
  }
}

TEST_P(KernelBitsArm, AddScaled) {
  for (const size_t n : kCounts) {
    for (const Fill fill : kFills) {
      const std::vector<float> x = floats(n, allowed(fill));
      Guarded<float> y(floats(n, allowed(fill)), side());
      Guarded<float> want(x, Side::kEnd), got(x, side());
      kScalarKernels.add_scaled(want.data(), y.data(), 0.3f, n);
      kernels_.add_scaled(got.data(), y.data(), 0.3f, n);
      expect_same(want.copy(), got.copy(), "add_scaled");
    }
  }
}

TEST_P(KernelBitsArm, Scores) {
  for (const size_t head_dim : kCounts) {
    for (const Fill fill : kFills) {
      const size_t n = below(70);
      const size_t n_groups = (head_dim + kActivationGroup - 1) / kActivationGroup;
      Guarded<int8_t> q(codes(head_dim, fill), side());
      Guarded<int8_t> keys(codes(n * head_dim, fill), side());
      Guarded<float> q_scales(floats(n_groups, Fill::kSigned), side());
      Guarded<float> key_scales(floats(n, Fill::kSigned), side());
      Guarded<float> want(n, Side::kEnd), got(n, side());
      kScalarKernels.scores_q8(q.data(), q_scales.data(), head_dim, keys.data(), key_scales.data(),
                               0.125f, n, want.data());
      kernels_.scores_q8(q.data(), q_scales.data(), head_dim, keys.data(), key_scales.data(),
                         0.125f, n, got.data());
      expect_same(want.copy(), got.copy(), "scores_q8");

      Guarded<float> q_floats(floats(head_dim, allowed(fill)), side());
      Guarded<float> key_floats(floats(n * head_dim, allowed(fill)), side());
      kScalarKernels.scores_f32(q_floats.data(), head_dim, key_floats.data(), 0.3f, n, want.data());
      kernels_.scores_f32(q_floats.data(), head_dim, key_floats.data(), 0.3f, n, got.data());
      expect_same(want.copy(), got.copy(), "scores_f32");
    }
  }
}

TEST_P(KernelBitsArm, ExpSum) {
  for (const size_t n : kCounts) {
    for (const Fill fill : kFills) {
      std::vector<float> scores = floats(n, allowed(fill));
      // Multiples of 1/64 around both ends of exp's range, ties of its rounding among them.
      for (float& s : scores) {
        if (below(2) == 0) s = static_cast<float>(static_cast<int>(below(12800)) - 6400) / 64.0f;
      }
      const float max = below(2) == 0 ? 0.0f : 1.5f;
      Guarded<float> want(scores, Side::kEnd), got(scores, side());
      const float want_sum = kScalarKernels.exp_sum(want.data(), n, max);
      const float got_sum = kernels_.exp_sum(got.data(), n, max);
      expect_same({want_sum}, {got_sum}, "sum");
      expect_same(want.copy(), got.copy(), "exp");
    }
  }
}

TEST_P(KernelBitsArm, WeightedSums) {
  for (const size_t head_dim : kCounts) {
    for (const Fill fill : kFills) {
      const size_t n = below(70);
      const std::vector<float> out = floats(head_dim, allowed(fill));
      Guarded<float> weights(floats(n, Fill::kSigned), side());
      Guarded<int8_t> values(codes(n * head_dim, fill), side());
      Guarded<float> value_scales(floats(n, Fill::kSigned), side());
      Guarded<float> want(out, Side::kEnd), got(out, side());
      kScalarKernels.weighted_sum_q8(weights.data(), values.data(), value_scales.data(), n,
                                     head_dim, 0.7f, want.data());
      kernels_.weighted_sum_q8(weights.data(), values.data(), value_scales.data(), n, head_dim,
                               0.7f, got.data());
      expect_same(want.copy(), got.copy(), "weighted_sum_q8");

      Guarded<float> value_floats(floats(n * head_dim, allowed(fill)), side());
      kScalarKernels.weighted_sum_f32(weights.data(), value_floats.data(), n, head_dim, 0.7f,
                                      want.data());
      kernels_.weighted_sum_f32(weights.data(), value_floats.data(), n, head_dim, 0.7f, got.data());
      expect_same(want.copy(), got.copy(), "weighted_sum_f32");
    }
  }
}

#if defined(__arm__) || defined(__aarch64__)
INSTANTIATE_TEST_SUITE_P(Isas, KernelBitsArm, testing::ValuesIn(arm_isas()),
                         [](const auto& row) { return std::string(row.param.name); });
#else
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(KernelBitsArm);
TEST(KernelBitsArmElsewhere, NeedAnArmCpu) { GTEST_SKIP() << "run under an emulator instead"; }
#endif

}  // namespace
}  // namespace cria
