// The instruction sets that tests go through.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/kernels/isas.h"

namespace cria::test {

struct IsaRow {
  Isa isa;
  const char* name;  // also of the kernels' table
  uint32_t mask;     // it and every lower one of these rows
};

// Those that this build has kernels for and this CPU can run, scalar first. Asks the CPU itself,
// not the program's detection; throws for an ISA of the list that it cannot ask for.
std::vector<IsaRow> runnable_isas();

// Those that this build has kernels for.
std::vector<IsaRow> built_isas();

}  // namespace cria::test
