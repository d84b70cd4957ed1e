// What only some families compute, for processors with Advanced SIMD; lane_variants.h and
// lane_states.h have the algorithms.
#include "runtime/kernels/lane_states.h"
#include "runtime/kernels/lane_variants.h"
#include "runtime/kernels/overrides.h"
#include "runtime/kernels/vector_lanes.h"

namespace cria {

void fill_variants_neon(Kernels* table) {
  LaneVariants<Lanes>::fill(table);
  LaneStates<Lanes>::fill(table);
}

}  // namespace cria
