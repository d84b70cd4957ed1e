// exp, logarithm, sine and cosine only from IEEE arithmetic: libm's differ from platform to
// platform, these do not. SIMD kernels repeat exp step by step.
#pragma once

#include <bit>
#include <cstdint>

namespace cria {

// exp(x) for f32, error below 2 units in the last place. Below kExpLowest the result is 0, so that
// no result is subnormal; above kExpHighest it is exp(kExpHighest).
inline constexpr float kExpLowest = -87.0f;
inline constexpr float kExpHighest = 88.0f;
// Adding and subtracting it rounds to an integer.
inline constexpr float kExpRoundMagic = 0x1.8p23f;
inline constexpr float kLog2E = 0x1.715476p+0f;
// ln 2 in two parts; the first has few enough bits that n * kLn2High is exact.
inline constexpr float kLn2High = 0x1.62e4p-1f;
inline constexpr float kLn2Low = 0x1.7f7d1cp-20f;
// Taylor's coefficients 1/k!; 1/2, 1 and 1 follow.
inline constexpr float kExpTaylor7 = 0x1.a01a02p-13f;
inline constexpr float kExpTaylor6 = 0x1.6c16c2p-10f;
inline constexpr float kExpTaylor5 = 0x1.111112p-7f;
inline constexpr float kExpTaylor4 = 0x1.555556p-5f;
inline constexpr float kExpTaylor3 = 0x1.555556p-3f;

[[nodiscard]] inline float exp_f32(float x) {
  const float limited = x < kExpHighest ? x : kExpHighest;
  const float shifted = limited * kLog2E + kExpRoundMagic;
  const float n = shifted - kExpRoundMagic;
  const float r = (limited - n * kLn2High) - n * kLn2Low;
  // Taylor's polynomial to r^7, |r| <= 0.35.
  float p = kExpTaylor7;
  p = p * r + kExpTaylor6;
  p = p * r + kExpTaylor5;
  p = p * r + kExpTaylor4;
  p = p * r + kExpTaylor3;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  // The integer n stands in the low bits of shifted; 2^n is built from them.
  const uint32_t bits = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(kExpRoundMagic);
  const float power = std::bit_cast<float>((bits + 127) << 23);
  return x < kExpLowest ? 0.0f : p * power;
}

// Of gelu by tanh, x * sigmoid((x + kGeluCube * x^3) * kGeluSlope): 2 * sqrt(2 / pi).
inline constexpr float kGeluCube = 0.044715f;
inline constexpr float kGeluSlope = 1.5957691216f;

// Natural logarithm of a finite x >= 1, error below 1e-15 of it or of 1: ln m of x = m * 2^n is
// 2 artanh((m - 1) / (m + 1)), a series in its square, which is below 0.03.
[[nodiscard]] inline double ln(double x) {
  constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  constexpr double kRootOfTwo = 0x1.6a09e667f3bcdp+0;
  int n = 0;
  for (; x > kRootOfTwo; x *= 0.5) ++n;
  const double s = (x - 1.0) / (x + 1.0);
  const double z = s * s;
  double sum = 0.0;
  for (int k = 25; k >= 1; k -= 2) sum = sum * z + 1.0 / k;
  return n * kLn2 + 2.0 * s * sum;
}

// ln(1 + e^x), for all that floats can be told apart by.
[[nodiscard]] inline float softplus(float x) {
  // Beyond these, the result is x, or e^x but for its square.
  constexpr float kHigh = 20.0f;
  constexpr float kLow = -15.0f;
  if (x > kHigh) return x;
  const double e = static_cast<double>(exp_f32(x));
  return static_cast<float>(x < kLow ? e - 0.5 * e * e : ln(1.0 + e));
}

struct SinCos {
  double sine;
  double cosine;
};

// Sine and cosine of 0 <= x < 2^27, error below 1e-13: x minus a multiple of pi/2 in three parts,
// then Taylor's polynomials on [-pi/4, pi/4].
[[nodiscard]] inline SinCos sin_cos(double x) {
  constexpr double kRoundMagic = 0x1.8p52;
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  // pi/2: the first two parts have 25 and 26 bits, so their products with n are exact.
  constexpr double kHalfPi1 = 0x1.921fb5p+0;
  constexpr double kHalfPi2 = 0x1.110b46p-26;
  constexpr double kHalfPi3 = 0x1.1a62633145c07p-54;
  const double shifted = x * kTwoOverPi + kRoundMagic;
  const double n = shifted - kRoundMagic;
  const double r = ((x - n * kHalfPi1) - n * kHalfPi2) - n * kHalfPi3;
  const double z = r * r;
  double s = -0x1.ae7f3e733b81fp-41;  // -1/15!
  s = s * z + 0x1.6124613a86d09p-33;  // 1/13!
  s = s * z - 0x1.ae64567f544e4p-26;  // 1/11!
  s = s * z + 0x1.71de3a556c734p-19;  // 1/9!
  s = s * z - 0x1.a01a01a01a01ap-13;  // 1/7!
  s = s * z + 0x1.1111111111111p-7;   // 1/5!
  s = s * z - 0x1.5555555555555p-3;   // 1/3!
  const double sine = r + r * z * s;
  double c = 0x1.ae7f3e733b81fp-45;   // 1/16!
  c = c * z - 0x1.93974a8c07c9dp-37;  // 1/14!
  c = c * z + 0x1.1eed8eff8d898p-29;  // 1/12!
  c = c * z - 0x1.27e4fb7789f5cp-22;  // 1/10!
  c = c * z + 0x1.a01a01a01a01ap-16;  // 1/8!
  c = c * z - 0x1.6c16c16c16c17p-10;  // 1/6!
  c = c * z + 0x1.5555555555555p-5;   // 1/4!
  c = c * z - 0.5;
  const double cosine = 1.0 + z * c;
  const uint64_t quadrant = std::bit_cast<uint64_t>(shifted) & 3;
  switch (quadrant) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

}  // namespace cria
