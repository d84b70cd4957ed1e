#include "runtime/decode/slots.h"

#include <algorithm>
#include <span>

namespace cria {
namespace {

// There is always one: a current slot and snapshots are one less than all.
uint32_t free_slot(const LayerStates& states) {
  uint32_t slot = 0;
  while (states.slots[slot].position != kNoPosition) ++slot;
  return slot;
}

// The snapshot that is nearest to the one before it: reading from there again costs least. kNoSlot:
// not all are taken.
uint32_t slot_to_give_up(const LayerStates& s) {
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

}  // namespace

void begin_blocks(cria_session* s) {
  if (s->states.n_slots != 0) s->states.write_slot = free_slot(s->states);
}

void commit_blocks(cria_session* s, uint32_t position) {
  LayerStates& states = s->states;
  if (states.n_slots == 0) return;
  for (uint32_t i = 0; i < states.n_slots; ++i) {
    if (!states.slots[i].is_snapshot) states.slots[i] = {kNoPosition, false};
  }
  if (states.slot_at(position) == kNoSlot) states.slots[states.write_slot] = {position, false};
}

uint32_t replace_blocks(cria_session* s, uint32_t position) {
  const std::span slots(s->states.slots, s->states.n_slots);
  for (StateSlot& slot : slots) slot = {kNoPosition, false};
  if (!slots.empty() && position != 0) slots[0] = {position, false};
  return 0;
}

Status keep_snapshot(cria_session* s, uint32_t position) {
  if (position > s->context) return Status::kInvalidArgument;
  if (!kHasBlocks || s->states.n_slots == 0) return Status::kOk;
  if (s->states.n_slots == kMoreSlots) return Status::kUnsupported;
  if (position == 0) return Status::kOk;
  StateSlot* const slots = s->states.slots;
  uint32_t slot = s->states.slot_at(position);
  if (slot == kNoSlot && position < s->position) return Status::kForgotten;
  if (slot != kNoSlot && slots[slot].is_snapshot) return Status::kOk;
  const uint32_t given_up = slot_to_give_up(s->states);
  if (given_up != kNoSlot) {
    slots[given_up].is_snapshot = false;
    if (slots[given_up].position != s->position) slots[given_up].position = kNoPosition;
  }
  if (slot == kNoSlot) slot = free_slot(s->states);
  slots[slot] = {position, true};
  return Status::kOk;
}

uint32_t last_followed(const cria_session& s, uint32_t position) {
  if (can_follow(s, position)) return position;
  uint32_t last = 0;
  for (uint32_t i = 0; kHasBlocks && i < s.states.n_slots; ++i) {
    const uint32_t at = s.states.slots[i].position;
    if (at < position && at > last && can_follow(s, at)) last = at;
  }
  return last;
}

}  // namespace cria

extern "C" {

cria_status cria_keep_snapshot(cria_session* session, uint32_t position) {
  if (session == nullptr) return CRIA_INVALID_ARGUMENT;
  return cria::to_public(cria::keep_snapshot(session, position));
}

uint32_t cria_resume_position(const cria_session* session, uint32_t position) {
  if (session == nullptr) return 0;
  return cria::last_followed(*session, std::min(position, session->position));
}

}  // extern "C"
