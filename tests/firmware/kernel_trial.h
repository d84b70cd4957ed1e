// What the cases of product_cases.cpp and vector_cases.cpp share: one instruction set's kernels,
// arrays between guards, values, and comparing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/kernels/kernels.h"
#include "tests/firmware/device_checks.h"
#include "tests/firmware/guarded_arrays.h"

namespace cria::firmware_test {

// What the floats of a case are like. Of kAnyBits products and sums may be subnormal.
enum class Fill { kModerate, kWide, kSpecial, kAnyBits };
inline constexpr Fill kFills[] = {Fill::kModerate, Fill::kWide, Fill::kSpecial, Fill::kAnyBits};
inline constexpr Side kSides[] = {Side::kEnd, Side::kBegin};

// Scales of a case: infinities and NaNs among them where floats are special.
[[nodiscard]] constexpr Fill scale_fill(Fill fill) {
  return fill == Fill::kSpecial ? Fill::kSpecial : Fill::kWide;
}

class KernelTrial {
 public:
  // Kernels of one instruction set, scalar where it has none. memory holds guarded arrays and, in
  // its other half, what the scalar kernels give.
  KernelTrial(const Kernels& kernels, std::span<uint8_t> memory);

  [[nodiscard]] const Kernels& kernels() const { return kernels_; }
  [[nodiscard]] size_t compared() const { return compared_; }
  // Floats may be anything: this instruction set's arithmetic knows subnormals.
  [[nodiscard]] bool has_subnormals() const { return has_subnormals_; }
  [[nodiscard]] Fill allowed(Fill fill) const {
    return fill == Fill::kAnyBits && !has_subnormals_ ? Fill::kSpecial : fill;
  }

  // Begins a case: arrays touch this side of their regions.
  void begin(Side side);
  template <class T>
  std::span<T> input(size_t n) {
    return arrays_.place<T>(n, side_, Use::kInput);
  }
  std::span<float> input_floats(size_t n, Fill fill);
  std::span<int8_t> input_codes(size_t n, Fill fill);
  // An output and its double for the scalar kernel, with the same bytes in both.
  template <class T>
  struct Output {
    std::span<T> got;
    std::span<T> want;
  };
  template <class T>
  Output<T> output(size_t n) {
    const Output<T> out = {arrays_.place<T>(n, side_, Use::kOutput), take_plain<T>(n)};
    for (size_t i = 0; i < n; ++i) out.got[i] = out.want[i] = T{77};
    return out;
  }
  Output<float> output_floats(size_t n, Fill fill);

  // Runs a kernel between guards.
  template <class Call>
  void guarded(const Call& call) {
    arrays_.raise();
    call();
    arrays_.lower();
  }
  // NaNs are equal whatever their payload; what is for the message.
  void expect_same(std::string_view what, const Output<float>& out);
  template <class T>
  void expect_equal(std::string_view what, const Output<T>& out) {
    for (size_t i = 0; i < out.got.size(); ++i, ++compared_) {
      if (out.got[i] != out.want[i]) differ(what, i);
    }
  }
  void expect_same(std::string_view what, float got, float want);

  [[nodiscard]] uint32_t random();
  [[nodiscard]] size_t below(size_t n) { return random() % n; }
  [[nodiscard]] float random_float(Fill fill);

 private:
  template <class T>
  std::span<T> take_plain(size_t n) {
    return {reinterpret_cast<T*>(take_plain_bytes(n * sizeof(T))), n};
  }
  uint8_t* take_plain_bytes(size_t n_bytes);
  [[noreturn]] void differ(std::string_view what, size_t element) const;

  const Kernels& kernels_;
  bool has_subnormals_;
  GuardedArrays arrays_;
  std::span<uint8_t> plain_;
  size_t plain_used_ = 0;
  Side side_ = Side::kEnd;
  uint64_t random_state_ = 20261121;
  size_t compared_ = 0;
};

// Matrix products of 1 to 33 rows of W and 0 to 9 of x; everything else, of 1 to 70 elements and
// heads of 2 to 96. Each case once with every fill and with both sides. A kernel that is the scalar
// one is left out and not counted.
void compare_products(KernelTrial& trial);
void compare_vectors(KernelTrial& trial);

}  // namespace cria::firmware_test
