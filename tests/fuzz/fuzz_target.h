// A fuzz target is one function of bytes in a file of its own. libFuzzer calls it in the preset
// fuzz; everywhere else replay.cpp calls it with the files of its corpus (tests/fuzz/README.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace cria::fuzz {

// Any bytes are an input. Returns 0; a finding ends the process. May allocate; keeps nothing from
// one call to the next that a result depends on.
int fuzz_one(const uint8_t* data, size_t size);

// Ends the process with a line that says which promise does not hold.
inline void expect(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

}  // namespace cria::fuzz
