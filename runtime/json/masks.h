// A vocabulary walked along the readings of a state: which tokens can come, and what is after one.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cria_json.h>
#include "runtime/base/arena.h"
#include "runtime/base/status.h"
#include "runtime/json/automaton.h"
#include "runtime/json/vocabulary.h"

namespace cria::json {

// Words of a state as callers keep it: cria_json_state.
inline constexpr size_t kStateWords = sizeof(cria_json_state) / sizeof(uint64_t);

// Masks that were made last, by the state: in a string of a pattern it hardly ever changes.
inline constexpr uint32_t kKeptMasks = 4;

struct KeptMask {
  uint64_t key;   // hash of the state; 0: none
  uint64_t used;  // when
  bool has_all;   // every token can come
};

// Tokens of which a schema with rules must know more than that they are strings' or not.
struct MarkedTokens {
  TokenEntry* specials;  // those of which markers consist
  const char* text;      // of specials
  uint32_t n_specials;
  uint32_t* in_text;  // plain and other tokens that contain what may end free text
  uint32_t n_in_text;
  uint32_t* in_values;  // plain tokens that contain the first byte of Rules::mark
  uint32_t n_in_values;
};

// What masks of one schema are made with.
struct Masks {
  const cria_json_vocabulary* vocabulary;
  const MarkedTokens* marked;  // null where the schema has no rules
  Schema schema;
  uint32_t id;  // a part of the schema's hash, which its states have
  Reading* readings;
  Frame* frames;
  uint32_t n_readings;  // there is room for
  uint32_t n_frames;
  KeptMask kept[kKeptMasks];
  uint64_t n_masks;
  uint32_t* bits;  // of the masks kept, one after the other
  cria_json_stop_fn wants_stop;
  void* stop_context;
};

// Bytes that take_masks takes, for tokens of at most longest bytes.
[[nodiscard]] uint64_t masks_bytes(const cria_json_vocabulary& vocabulary, uint32_t longest);
// Fills all but schema and id.
[[nodiscard]] Status take_masks(const cria_json_vocabulary& vocabulary, uint32_t longest,
                                Arena* arena, Masks* masks);

[[nodiscard]] Walk walk_of(const Masks& masks);
// The state's readings at the front of a walk. kBadState for what is none of this schema.
[[nodiscard]] Status resume(const Masks& masks, const uint64_t* state, Walk* walk);
// What is after n bytes of a walk, as a state.
void keep(const Masks& masks, const Walk& walk, uint32_t n, uint64_t* state);

// Errors: kBadState, kCancelled; logits are then as they were.
[[nodiscard]] Status apply_mask(Masks* masks, const uint64_t* state, float* logits);
// kInvalidArgument when no mask would have left the token. An end token where the document may end
// changes nothing.
[[nodiscard]] Status accept_token(const Masks& masks, uint64_t* state, uint32_t token);
// Whether a special token of marked can come.
[[nodiscard]] bool can_take_special(const Masks& masks, const uint64_t* state,
                                    const TokenEntry& special);
// Whether any byte can follow at the front of a walk.
[[nodiscard]] bool can_go_on(Walk* walk);

}  // namespace cria::json
