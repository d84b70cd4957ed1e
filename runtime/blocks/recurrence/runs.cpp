#include "runtime/blocks/recurrence/runs.h"

#if CRIA_WITH_RECURRENT

namespace cria::recurrences {

Run run_at(const Step& s, const Layer& layer, size_t first) {
  const LayerStates& states = *s.rows[first].states;
  const uint32_t position = s.rows[first].position;
  // After an earlier chunk blocks stand where it wrote them.
  const uint32_t at = states.slot_at(position);
  const uint32_t read_slot = at != kNoSlot ? at : states.write_slot;
  uint32_t end = kNoPosition;  // the next position that has a slot
  for (uint32_t i = 0; i < states.n_slots; ++i) {
    const uint32_t other = states.slots[i].position;
    if (other > position && other < end) end = other;
  }
  size_t n = 1;
  while (first + n < s.n() && s.rows[first + n].states == &states && position + n < end) ++n;
  const uint32_t write_slot = position + n == end ? states.slot_at(end) : states.write_slot;
  return {first, n, position == 0, read_slot, write_slot, layer, states};
}

}  // namespace cria::recurrences

#endif  // CRIA_WITH_RECURRENT
