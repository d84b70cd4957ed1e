// What libFuzzer calls.
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/time_limit.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);  // NOLINT

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {  // NOLINT
  cria::fuzz::run_in_time(cria::fuzz::fuzz_one, data, size);
  return 0;
}
