#include "runtime/blocks/recurrence/runs.h"

#if CRIA_WITH_RECURRENT

namespace cria::recurrences {

Run run_at(const Step& s, const Layer& layer, size_t first) {
  const LayerStates* const states = s.rows[first].states;
  size_t n = 1;
  while (first + n < s.n() && s.rows[first + n].states == states) ++n;
  return {first, n, s.rows[first].position == 0, layer, *states};
}

}  // namespace cria::recurrences

#endif  // CRIA_WITH_RECURRENT
