#include "runtime/decode/slots.h"

namespace cria {
namespace {

// The first from one on. From 0 on there is always one: a current slot and snapshots are one less
// than all.
uint32_t free_slot(const cria_session& s, uint32_t from) {
  uint32_t slot = from;
  while (slot < s.n_slots && s.slots[slot].position != kNoPosition) ++slot;
  return slot;
}

// The snapshot that is nearest to the one before it: reading from there again costs least. kNoSlot:
// not all are taken.
uint32_t slot_to_give_up(const cria_session& s) {
  uint32_t n_snapshots = 0;
  uint32_t found = kNoSlot;
  uint32_t least = UINT32_MAX;
  for (uint32_t i = 0; i < s.n_slots; ++i) {
    if (!s.slots[i].is_snapshot) continue;
    ++n_snapshots;
    uint32_t before = 0;
    for (uint32_t j = 0; j < s.n_slots; ++j) {
      const StateSlot& other = s.slots[j];
      const bool is_before = other.is_snapshot && other.position < s.slots[i].position;
      if (is_before && other.position > before) before = other.position;
    }
    const uint32_t distance = s.slots[i].position - before;
    if (distance < least) {
      least = distance;
      found = i;
    }
  }
  return n_snapshots + kMoreSlots == s.n_slots ? found : kNoSlot;
}

void make_snapshot_room(cria_session* s) {
  const uint32_t slot = slot_to_give_up(*s);
  if (slot != kNoSlot) s->slots[slot] = {kNoPosition, false};
}

bool has_snapshots(const cria_session& s) { return s.n_slots > kMoreSlots; }

}  // namespace

void begin_blocks(cria_session* s, size_t n_tokens) {
  if (s->n_slots == 0) return;
  s->states.read_slot = slot_at(*s, s->position);
  s->states.write_slot = free_slot(*s, 0);
  s->states.keep_position = 0;
  const uint32_t wanted = s->keep_at;
  if (!has_snapshots(*s) || wanted <= s->position || wanted - s->position >= n_tokens) return;
  // Where only one is free, the slot that is read is no snapshot and stays.
  if (free_slot(*s, s->states.write_slot + 1) == s->n_slots) make_snapshot_room(s);
  s->states.write_slot = free_slot(*s, 0);
  s->states.keep_slot = free_slot(*s, s->states.write_slot + 1);
  s->states.keep_position = wanted;
}

void commit_blocks(cria_session* s, uint32_t position) {
  if (s->n_slots == 0) return;
  for (uint32_t i = 0; i < s->n_slots; ++i) {
    if (!s->slots[i].is_snapshot) s->slots[i] = {kNoPosition, false};
  }
  if (s->states.keep_position != 0) {
    make_snapshot_room(s);
    s->slots[s->states.keep_slot] = {s->states.keep_position, true};
  }
  s->slots[s->states.write_slot] = {position, false};
  if (s->keep_at == position) keep_snapshot(s);
  s->keep_at = 0;
}

uint32_t replace_blocks(cria_session* s, uint32_t position) {
  for (uint32_t i = 0; i < s->n_slots; ++i) s->slots[i] = {kNoPosition, false};
  if (s->n_slots != 0 && position != 0) s->slots[0] = {position, false};
  s->keep_at = 0;
  return 0;
}

void keep_snapshot(cria_session* s) {
  if constexpr (!kHasBlocks) return;
  if (!has_snapshots(*s) || s->position == 0) return;
  StateSlot& slot = s->slots[slot_at(*s, s->position)];
  if (slot.is_snapshot) return;
  make_snapshot_room(s);
  slot.is_snapshot = true;
}

void keep_snapshot_at(cria_session* s, uint32_t position) {
  if constexpr (!kHasBlocks) return;
  if (position == s->position) keep_snapshot(s);
  s->keep_at = position;
}

uint32_t last_followed(const cria_session& s, uint32_t position) {
  if (can_follow(s, position)) return position;
  uint32_t last = 0;
  for (uint32_t i = 0; kHasBlocks && i < s.n_slots; ++i) {
    const uint32_t at = s.slots[i].position;
    if (at < position && at > last && can_follow(s, at)) last = at;
  }
  return last;
}

}  // namespace cria

extern "C" cria_status cria_keep_snapshot(cria_session* session) {
  if (session == nullptr) return CRIA_INVALID_ARGUMENT;
  if (session->n_slots == cria::kMoreSlots) return CRIA_UNSUPPORTED;
  cria::keep_snapshot(session);
  return CRIA_OK;
}

extern "C" cria_status cria_keep_snapshot_at(cria_session* session, uint32_t position) {
  if (session == nullptr || position < session->position || position > session->context) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (session->n_slots == cria::kMoreSlots) return CRIA_UNSUPPORTED;
  cria::keep_snapshot_at(session, position);
  return CRIA_OK;
}
