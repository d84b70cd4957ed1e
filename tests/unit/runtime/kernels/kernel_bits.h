// What the tests of the kernels' bits share: values to try, comparison, and the frame that runs a
// check on every ISA of this CPU.
//
// Every kernel of every ISA must equal the scalar reference bit for bit, and stay within its
// arrays. Results that are NaN must be NaN in both: which of two NaNs an addition passes on is the
// compiler's choice even in the scalar code.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "runtime/kernels/kernels.h"
#include "tests/support/guarded.h"
#include "tests/support/isa_list.h"

namespace cria {

using test::Edge;
using test::Guarded;
using test::IsaRow;

inline constexpr Edge kEdges[] = {Edge::kEnd, Edge::kStart};
inline constexpr size_t kRoom = size_t{1} << 22;
inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

inline size_t compared = 0;

inline bool same(float a, float b) {
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

// Armv7's Advanced SIMD takes subnormals for zeros; its promise is for other numbers
// (docs/numerics.md), so there the tests leave them out.
#if defined(__arm__)
inline constexpr bool kHasSubnormals = false;
#else
inline constexpr bool kHasSubnormals = true;
#endif

// What values an array holds; kWide are of any size up to 2^20 both ways, the last two give
// subnormals.
enum class Fill { kRandom, kHuge, kSpecial, kZero, kWide, kTiny, kAnyBits };
inline constexpr Fill kAllFills[] = {Fill::kRandom, Fill::kHuge, Fill::kSpecial, Fill::kZero,
                                     Fill::kWide,   Fill::kTiny, Fill::kAnyBits};
inline constexpr std::span<const Fill> kFills(kAllFills, kHasSubnormals ? 7 : 5);

// From 2^-20 to 2^20, of either sign.
inline float wide_float(std::mt19937* random) {
  constexpr int kExponents = 20;
  const int exponent = static_cast<int>((*random)() % (2 * kExponents)) - kExponents;
  const float fraction = 1.0f + static_cast<float>((*random)() >> 9) * 0x1p-23f;
  return std::ldexp((*random)() % 2 == 0 ? fraction : -fraction, exponent);
}

inline std::vector<float> floats(size_t n, Fill fill, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-3.0f, 3.0f);
  constexpr float kSpecials[] = {kInfinity, -kInfinity, kNan,     -0.0f,     88.5f,     -90.0f,
                                 3e38f,     1.0f,       0x1p-41f, 0x1p-149f, -0x1p-130f};
  constexpr size_t kSpecialCount = std::size(kSpecials) - (kHasSubnormals ? 0 : 2);
  std::vector<float> values(n);
  for (float& v : values) {
    v = uniform(random);
    if (fill == Fill::kTiny) v *= 0x1p-126f;
    if (fill == Fill::kHuge) v *= 1e38f;
    if (fill == Fill::kSpecial && random() % 16 == 0) v = kSpecials[random() % kSpecialCount];
    if (fill == Fill::kZero) v = 0.0f;
    if (fill == Fill::kWide) v = wide_float(&random);
    if (fill == Fill::kAnyBits) v = std::bit_cast<float>(static_cast<uint32_t>(random()));
  }
  return values;
}

// Codes and scales of weights, or codes and scales of activations. kEnds: codes at either end,
// scales as in Fill::kWide; kSomeScales: wide ones and zeros; kFarScales: the largest and tiny
// ones.
enum class Codes {
  kRandom,
  kLowest,
  kHighest,
  kZeroScale,
  kLargestScale,
  kAlternating,
  kEnds,
  kSomeScales,
  kFarScales
};
inline constexpr Codes kCodes[] = {Codes::kRandom,    Codes::kLowest,       Codes::kHighest,
                                   Codes::kZeroScale, Codes::kLargestScale, Codes::kAlternating,
                                   Codes::kEnds,      Codes::kSomeScales,   Codes::kFarScales};

inline int code_of(Codes kind, int lowest, int highest, size_t i, std::mt19937* random) {
  switch (kind) {
    case Codes::kLowest:
      return lowest;
    case Codes::kHighest:
      return highest;
    case Codes::kAlternating:
      return i % 2 == 0 ? lowest : highest;
    case Codes::kEnds:
      return (*random)() % 2 == 0 ? lowest : highest;
    default:
      return lowest + static_cast<int>((*random)() % static_cast<unsigned>(highest - lowest + 1));
  }
}

inline float scale_of(Codes kind, std::mt19937* random) {
  if (kind == Codes::kZeroScale) return 0.0f;
  if (kind == Codes::kLargestScale) return 3e38f;
  if (kind == Codes::kEnds) return std::fabs(wide_float(random));
  if (kind == Codes::kSomeScales && (*random)() % 4 == 0) return 0.0f;
  if (kind == Codes::kSomeScales) return std::fabs(wide_float(random));
  if (kind == Codes::kFarScales) return (*random)() % 2 == 0 ? 0x1.fep127f : 0x1p-62f;
  return 0.001f + static_cast<float>((*random)() % 1000) * 1e-4f;
}

inline std::vector<int8_t> codes(size_t n, Codes kind, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<int8_t> values(n);
  for (size_t i = 0; i < n; ++i) {
    values[i] = static_cast<int8_t>(code_of(kind, -127, 127, i, &random));
  }
  return values;
}

inline std::vector<float> scales(size_t n, Codes kind, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = scale_of(kind, &random);
  return values;
}

// A kernel and what compares one ISA's with the scalar one.
struct KernelRow {
  const char* name;
  void (*check)(const Kernels& table);
};

using KernelCase = std::tuple<IsaRow, KernelRow>;

inline std::string case_label(const testing::TestParamInfo<KernelCase>& info) {
  std::string name = std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param).name;
  std::erase(name, '.');
  return name;
}

class KernelBits : public testing::TestWithParam<KernelCase> {
 protected:
  static void expect_scalar_bits() {
    const auto& [isa, row] = GetParam();
    Kernels table;
    ASSERT_TRUE(select_kernels(isa.mask, &table));
    ASSERT_STREQ(table.isa, isa.name);
    compared = 0;
    row.check(table);
    EXPECT_GT(compared, 0u);
    std::printf("%zu arrays compared\n", compared);
  }
};

}  // namespace cria
