// The most multiply-adds of bytes that an ISA does: its instructions for int4 products on registers
// alone, without a load or a store. One function for each ISA, in a file of its flags.
#pragma once

#include <cstddef>
#include <utility>

namespace cria::bench {

// Sums that do not wait for each other: enough to hide the latency of every instruction used, few
// enough for 16 registers.
inline constexpr size_t kDotPeakSums = 10;

// Each step does kDotPeakSums dot products of whole registers: 16, 32 or 64 multiply-adds each.
#if defined(__x86_64__)
void dot_peak_sse4_1(size_t n_steps);
void dot_peak_avx2(size_t n_steps);
void dot_peak_avxvnni(size_t n_steps);
void dot_peak_avx512vnni(size_t n_steps);
#endif

// Dot is of the anonymous namespace of the ISA's file, which keeps what is made of this template
// there (runtime/kernels/overrides.h). Dot::add(sum, weights, x) is the ISA's dot product.
template <class Dot, size_t... kIndex>
void run_dot_peak(size_t n_steps, std::index_sequence<kIndex...> /*sums*/) {
  using Ints = typename Dot::Ints;
  Ints sums[] = {(static_cast<void>(kIndex), Ints{})...};
  Ints weights = {};
  Ints x = {};
  // The compiler must not know the values, must take x for changed before each product, and must
  // not mix the products, or it would run out of registers.
  __asm__("" : "+x"(weights));
  const auto add = [&](Ints& sum) {
    __asm__ volatile("" : "+x"(sum), "+x"(x));
    sum = Dot::add(sum, weights, x);
  };
  for (size_t step = 0; step < n_steps; ++step) (add(sums[kIndex]), ...);
  const auto use = [](const Ints& sum) { __asm__ volatile("" : : "x"(sum)); };
  (use(sums[kIndex]), ...);
}

template <class Dot>
void run_dot_peak(size_t n_steps) {
  run_dot_peak<Dot>(n_steps, std::make_index_sequence<kDotPeakSums>());
}

}  // namespace cria::bench
