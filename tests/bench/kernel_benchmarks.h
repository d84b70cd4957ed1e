// Who registers benchmarks of which kernels: for each ISA that this CPU runs, at sizes of real
// models. Names are <kernel>/<isa>/<size>. memory and limits must outlive the run.
#pragma once

#include "tests/bench/bench_limits.h"

namespace cria::bench {

// Matrix products, decode (rows:1) and prefill (rows:64): <kernel>/<isa>/<W's shape>/rows:<rows>.
// Counters: bytes of weights and multiply-adds a second, and which part of the limits they are,
// for limits that were measured before.
void register_products(const ColdMemory& memory, const Limits* limits);

// Vectors, and attention of one head over a context: <kernel>/<isa>/<elements or context>.
// Counters: bytes and elements (for attention, multiply-adds) a second.
void register_vectors(const ColdMemory& memory);

}  // namespace cria::bench
