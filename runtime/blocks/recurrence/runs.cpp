#include "runtime/blocks/recurrence/runs.h"

#if CRIA_WITH_RECURRENT

namespace cria::recurrences {

Run run_at(const Step& s, const Layer& layer, size_t first) {
  const LayerStates* const states = s.rows[first].states;
  const uint32_t position = s.rows[first].position;
  const uint32_t kept = states->keep_position;
  size_t n = 1;
  while (first + n < s.n() && s.rows[first + n].states == states && position + n != kept) ++n;
  const bool goes_on = position == kept;
  const bool is_kept = position + n == kept;
  return {first,
          n,
          position == 0,
          layer,
          *states,
          goes_on ? states->keep_slot : states->read_slot,
          is_kept ? states->keep_slot : states->write_slot};
}

}  // namespace cria::recurrences

#endif  // CRIA_WITH_RECURRENT
