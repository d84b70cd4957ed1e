// Kernels against the scalar ones, bit for bit, between guards; and the guards themselves.
#include "platforms/cortex_m/console.h"
#include "tests/firmware/device_checks.h"
#include "tests/firmware/guarded_arrays.h"
#include "tests/firmware/kernel_trial.h"

namespace cria::firmware_test {

using cortex_m::fail;
using cortex_m::print;

void check_kernels(const Bench& bench, std::string_view /*words*/) {
  size_t compared = 0;
  for (uint32_t isas = built_isas() & ~1u; isas != 0; isas &= isas - 1) {
    Kernels kernels = {};
    if (!select_kernels(isas & (~isas + 1), &kernels)) fail("no kernels");
    KernelTrial trial(kernels, bench.work);
    compare_products(trial);
    compare_vectors(trial);
    if (trial.compared() == 0) fail("nothing was compared");
    print("isa ", std::string_view(kernels.isa), " compared ", trial.compared(), "\n");
    compared += trial.compared();
  }
  if (compared == 0) fail("nothing was compared");
}

void check_guards(const Bench& bench, std::string_view words) {
  const bool is_before = next_number(&words) != 0;
  const uint32_t what = next_number(&words);
  GuardedArrays arrays(bench.work);
  const auto side = is_before ? Side::kBegin : Side::kEnd;
  const auto array = arrays.place<uint8_t>(45, side, what == 2 ? Use::kInput : Use::kOutput);
  volatile uint8_t* beyond = is_before ? array.data() - 1 : array.data() + array.size();
  volatile uint8_t* inside = is_before ? array.data() : beyond - 1;
  arrays.raise();
  // What is allowed first: it must not be this that ends the program.
  if (what != 2) *inside = 1;
  static_cast<void>(*inside);
  print("inside\n");
  if (what == 0) static_cast<void>(*beyond);
  if (what == 1) *beyond = 1;
  if (what == 2) *inside = 1;
  arrays.lower();
  print("beyond\n");
}

}  // namespace cria::firmware_test
