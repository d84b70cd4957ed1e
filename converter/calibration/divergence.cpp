#include "converter/calibration/divergence.h"

#include <bit>
#include <cmath>

#include "quant/numbers/lanes.h"
#include "quant/numbers/multiversion.h"

namespace cria::converter {
namespace {

// exp, error below 2 units in the last place; below kLowest zero, above kHighest exp(kHighest).
CRIA_LANES_INLINE void exp_of(const Lanes& x, Lanes* y) {
  constexpr float kLowest = -87.0f;
  constexpr float kHighest = 88.0f;
  constexpr float kRoundMagic = 0x1.8p23f;  // adding and taking it away rounds to an integer
  constexpr float kLog2E = 0x1.715476p+0f;
  // ln 2 in two parts; n times the first is exact.
  constexpr float kLn2High = 0x1.62e4p-1f;
  constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  constexpr uint32_t kExponentBias = 127;
  constexpr uint32_t kExponentShift = 23;
  // 1/k!, k from 7 down.
  constexpr float kTaylor[] = {0x1.a01a02p-13f,
                               0x1.6c16c2p-10f,
                               0x1.111112p-7f,
                               0x1.555556p-5f,
                               0x1.555556p-3f,
                               0.5f,
                               1.0f,
                               1.0f};
  const Lanes limited = x < kHighest ? x : kHighest - Lanes{};
  const Lanes shifted = limited * kLog2E + kRoundMagic;
  const Lanes n = shifted - kRoundMagic;
  const Lanes r = (limited - n * kLn2High) - n * kLn2Low;
  Lanes p = kTaylor[0] - Lanes{};
  for (size_t i = 1; i < 8; ++i) p = p * r + kTaylor[i];
  const LaneWords whole = (LaneWords)shifted - std::bit_cast<uint32_t>(kRoundMagic);
  const Lanes power = (Lanes)((whole + kExponentBias) << kExponentShift);
  *y = x < kLowest ? Lanes{} : p * power;
}

// A part of fewer than 16 elements, the rest as fill.
CRIA_LANES_INLINE void load_part(const float* from, size_t n, float fill, Lanes* to) {
  float values[kLanes];
  for (size_t i = 0; i < kLanes; ++i) values[i] = i < n ? from[i] : fill;
  load(values, to);
}

CRIA_LANES_INLINE void load_at(const float* x, size_t i, size_t n, float fill, Lanes* to) {
  if (i + kLanes <= n) {
    load(x + i, to);
  } else {
    load_part(x + i, n - i, fill, to);
  }
}

CRIA_LANES_INLINE void store_at(const Lanes& from, size_t i, size_t n, float* x) {
  std::memcpy(x + i, &from, (i + kLanes <= n ? kLanes : n - i) * sizeof(float));
}

CRIA_MULTIVERSION void softmax_in_lanes(float* x, size_t n) {
  float most = x[0];
  for (size_t i = 1; i < n; ++i) most = x[i] > most ? x[i] : most;
  constexpr float kNothing = -1e30f;
  Lanes sums = {};
  for (size_t i = 0; i < n; i += kLanes) {
    Lanes part, e;
    load_at(x, i, n, kNothing, &part);
    exp_of(part - most, &e);
    sums += e;
    store_at(e, i, n, x);
  }
  const float total = sum_of(sums);
  for (size_t i = 0; i < n; ++i) x[i] /= total;
}

// exp(x) - 1 - x, which is nowhere below zero.
CRIA_LANES_INLINE void exp_above_line(const Lanes& x, Lanes* y) {
  constexpr float kNear = 0.25f;
  // 1/k!, k from 7 down to 2.
  constexpr float kTaylor[] = {0x1.a01a02p-13f, 0x1.6c16c2p-10f, 0x1.111112p-7f,
                               0x1.555556p-5f,  0x1.555556p-3f,  0.5f};
  Lanes series = kTaylor[0] - Lanes{};
  for (size_t i = 1; i < 6; ++i) series = series * x + kTaylor[i];
  Lanes size, e;
  magnitude(x, &size);
  exp_of(x, &e);
  *y = size < kNear ? series * x * x : e - 1.0f - x;
}

CRIA_MULTIVERSION float mean_change_in_lanes(const float* p, const float* exact, const float* other,
                                             size_t n) {
  Lanes sums = {};
  for (size_t i = 0; i < n; i += kLanes) {
    Lanes weight, from, to;
    load_at(p, i, n, 0.0f, &weight);
    load_at(exact, i, n, 0.0f, &from);
    load_at(other, i, n, 0.0f, &to);
    sums += weight * (to - from);
  }
  return sum_of(sums);
}

// The mean of exp(change) - 1, changes being those from a mean of zero.
CRIA_MULTIVERSION float mean_growth_in_lanes(const float* p, const float* exact, const float* other,
                                             size_t n, float mean) {
  Lanes sums = {};
  for (size_t i = 0; i < n; i += kLanes) {
    Lanes weight, from, to, growth;
    load_at(p, i, n, 0.0f, &weight);
    load_at(exact, i, n, 0.0f, &from);
    load_at(other, i, n, 0.0f, &to);
    exp_above_line(to - from - mean, &growth);
    sums += weight * growth;
  }
  return sum_of(sums);
}

// log(1 + x), x >= 0, error below 1e-15 of (1 + it).
double log_of_one_more(double x) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;
  constexpr int kTerms = 14;
  int exponent = 0;
  double m = std::frexp(1 + x, &exponent) * 2;  // 1 to 2
  --exponent;
  if (m > kSqrt2) {
    m /= 2;
    ++exponent;
  }
  // log(m) = 2 artanh(z).
  const double z = (m - 1) / (m + 1);
  double series = 0;
  for (int k = kTerms; k >= 0; --k) series = series * z * z + 1.0 / (2 * k + 1);
  return exponent * kLn2 + 2 * z * series;
}

}  // namespace

// Plain functions around those with versions: some compilers give only the latter's own file a name
// for all versions.
void softmax(float* x, size_t n) { softmax_in_lanes(x, n); }

double divergence(const float* p, const float* exact, const float* other, size_t n) {
  // log of the mean of exp(change), less the mean change: changes of small mean leave no
  // differences of large numbers.
  const float mean = mean_change_in_lanes(p, exact, other, n);
  return log_of_one_more(static_cast<double>(mean_growth_in_lanes(p, exact, other, n, mean)));
}

}  // namespace cria::converter
