// The object behind cria_session: what changes as one conversation goes.
#pragma once

#include "runtime/base/random.h"
#include "runtime/decode/kv_cache.h"
#include "runtime/decode/model.h"

struct cria_session {
  const cria_model* model;
  cria::KvCache kv;
  uint32_t* history;  // [kv.context] tokens of the positions used
  float* logits;      // [vocab_size]
  uint32_t position;
  bool has_logits;
  bool is_in_step;  // while cria_step looks for a session that it was given twice
  cria::Pcg32 random;
  size_t n_bytes;  // of memory, this object included
};
static_assert(sizeof(cria_session) <= cria::kSessionObjectBytes);
