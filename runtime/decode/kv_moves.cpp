// cria_copy_prefix and cria_drop: positions of the KV cache that become others.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/base/scalar_math.h"
#include "runtime/blocks/blocks.h"
#include "runtime/decode/session.h"
#include "runtime/decode/slots.h"
#include "runtime/decode/workspace.h"

namespace cria {
namespace {

// Copying a prefix -------------------------------------------------------------------------------

void copy_rows(const KvCache& to, const KvCache& from, uint32_t first, uint32_t last) {
  for (size_t head = 0; head < size_t{to.n_layers} * to.n_heads; ++head) {
    for (size_t part = 0; part < to.n_parts; ++part) {
      for (uint32_t position = first; position < last; ++position) {
        std::memcpy(to.at(part, to.row(0, head, position)),
                    from.at(part, from.row(0, head, position)), to.row_bytes[part]);
      }
    }
  }
}

// The block of every layer.
void copy_blocks(const KvCache& to, uint32_t to_slot, const KvCache& from, uint32_t from_slot) {
  for (size_t layer = 0; layer < to.n_layers; ++layer) {
    for (size_t part = 0; part < to.n_parts; ++part) {
      std::memcpy(to.at(part, to.row(layer, 0, to_slot)),
                  from.at(part, from.row(layer, 0, from_slot)), to.row_bytes[part]);
    }
  }
}

// to: with the slot of position n where there is one.
void copy_kind(const cria_session& to, const cria_session& from, size_t kind, uint32_t n) {
  KvCache& cache = to.caches()[kind];
  if (kHasBlocks && cache.keeps == Keeps::kBlock) {
    if (n != 0) {
      copy_blocks(cache, to.states.slot_at(n), from.caches()[kind], from.states.slot_at(n));
    }
    return;
  }
  const uint32_t first = first_attended(to.model->config.kinds[kind], n);
  copy_rows(cache, from.caches()[kind], first, n);
  cache.first_kept = first;
}

Status copy_prefix(cria_session* to, const cria_session& from, uint32_t n) {
  if (n > from.position) return Status::kInvalidArgument;
  if (n > to->context) return Status::kContextFull;
  if (!can_follow(from, n)) return Status::kForgotten;
  if constexpr (kHasBlocks) replace_blocks(to, n);
  for (size_t kind = 0; kind < to->caches().size(); ++kind) copy_kind(*to, from, kind, n);
  std::copy(from.history, from.history + n, to->history);
  to->position = n;
  to->first_moved = from.first_moved < n ? from.first_moved : UINT32_MAX;
  to->has_logits = from.has_logits && n == from.position;
  if (to->has_logits) {
    std::copy(from.logits, from.logits + from.model->scalars().vocab_size, to->logits);
  }
  return Status::kOk;
}

// Dropping positions -----------------------------------------------------------------------------

// Moves rows of a kind's layers to where they stand n positions lower.
class DownMove {
 public:
  // scratch [moving_floats]
  DownMove(const cria_session& s, size_t kind, uint32_t n, float* scratch)
      : kind_(s.model->config.kinds[kind]),
        cache_(s.caches()[kind]),
        kernels_(s.model->kernels),
        mixer_(find_mixer(kind_.mixer)),
        scratch_(scratch) {
    if (kind_.rope_table == format::kNoTable) return;
    n_pairs_ = s.model->scalars().rope_tables[kind_.rope_table].n_pairs;
    const float* const rates = s.states.rope_rates[kind_.rope_table];
    for (size_t i = 0; i < n_pairs_; ++i) {
      // Without the table's factor, which the keys have already.
      const SinCos value = sin_cos(static_cast<double>(static_cast<float>(n) * rates[i]));
      scratch_[i] = static_cast<float>(value.cosine);
      scratch_[n_pairs_ + i] = -static_cast<float>(value.sine);
    }
  }

  // A row of each part, with its key turned back.
  void move(size_t from, size_t to, size_t task) const {
    for (size_t part = 0; part < cache_.n_parts; ++part) {
      std::memcpy(cache_.at(part, to), cache_.at(part, from), cache_.row_bytes[part]);
    }
    turn(to, task);
  }

  // All rows of a ring, from base on, by n positions: each goes where another one stood, round and
  // round, until the first of a round finds its place.
  void turn_ring(size_t base, size_t n, size_t task) const {
    const size_t n_positions = cache_.n_positions;
    const size_t distance = n % n_positions;
    const size_t n_rounds = std::gcd(distance, n_positions);
    for (size_t round = 0; round < n_rounds; ++round) {
      keep(base + round, task);
      size_t to = round;
      for (size_t from = (to + distance) % n_positions; from != round;
           from = (from + distance) % n_positions) {
        move(base + from, base + to, task);
        to = from;
      }
      put_back(base + to, task);
      turn(base + to, task);
    }
  }

 private:
  // A task's floats: a key, then a row of each part, whose codes and scales are no longer than
  // floats.
  [[nodiscard]] float* floats_of(size_t task) const {
    return scratch_ + kind_.key_dim + task * 2 * size_t{kept_values(kind_)};
  }
  [[nodiscard]] uint8_t* kept(size_t task) const {
    return reinterpret_cast<uint8_t*>(floats_of(task) + kind_.key_dim);
  }
  void keep(size_t row, size_t task) const {
    uint8_t* place = kept(task);
    for (size_t part = 0; part < cache_.n_parts; place += cache_.row_bytes[part++]) {
      std::memcpy(place, cache_.at(part, row), cache_.row_bytes[part]);
    }
  }
  void put_back(size_t row, size_t task) const {
    const uint8_t* place = kept(task);
    for (size_t part = 0; part < cache_.n_parts; place += cache_.row_bytes[part++]) {
      std::memcpy(cache_.at(part, row), place, cache_.row_bytes[part]);
    }
  }
  void turn(size_t row, size_t task) const {
    if (n_pairs_ == 0 || mixer_->turn_back == nullptr) return;
    uint8_t* rows[kMaxStateParts];
    for (size_t part = 0; part < kMaxStateParts; ++part) rows[part] = cache_.at(part, row);
    mixer_->turn_back({kernels_, kind_, cache_.kv_format, scratch_, scratch_ + n_pairs_, n_pairs_,
                       floats_of(task)},
                      rows);
  }

  const format::LayerKind& kind_;
  const KvCache& cache_;
  const Kernels& kernels_;
  const Mixer* mixer_;
  float* scratch_;
  size_t n_pairs_ = 0;
};

// Positions [first, first + n) of a session that are to go.
struct Dropped {
  uint32_t first;
  uint32_t n;
};

bool has_gone_round(const KvCache& cache) { return cache.first_kept != 0; }

// The first position that a ring holds afterwards.
uint32_t kept_after(const KvCache& cache, const Dropped& d) {
  return std::max(cache.first_kept, d.first + d.n) - d.n;
}

// Whether a ring that has gone round can lose them: what is older than the forgotten stays where it
// is, which a ring's other rows do not.
bool can_lose(const cria_session& s, size_t kind, const Dropped& d) {
  const KvCache& cache = s.caches()[kind];
  if (cache.n_parts == 0 || !has_gone_round(cache)) return true;
  const uint32_t end = s.position - d.n;
  const bool is_enough =
      end == 0 || first_attended(s.model->config.kinds[kind], end) >= kept_after(cache, d);
  return d.first <= cache.first_kept && is_enough;
}

void drop_rows(const cria_workspace& w, const cria_session& s, size_t kind, const Dropped& d) {
  const KvCache& cache = s.caches()[kind];
  if (cache.n_parts == 0) return;
  const DownMove down(s, kind, d.n, reinterpret_cast<float*>(w.scratch.data()));
  const size_t n_heads = size_t{cache.n_layers} * cache.n_heads;
  parallel_for(w.threads, Even{n_heads}, [&](size_t begin, size_t last, size_t task) {
    for (size_t head = begin; head < last; ++head) {
      if (has_gone_round(cache)) {
        down.turn_ring(cache.row(0, head, 0), d.n, task);
        continue;
      }
      for (uint32_t position = d.first + d.n; position < s.position; ++position) {
        down.move(cache.row(0, head, position), cache.row(0, head, position - d.n), task);
      }
    }
  });
}

Status drop(cria_workspace* w, cria_session* s, uint32_t first, uint32_t n) {
  if (!w->can_run) return Status::kNoWeights;
  if (first > s->position || n > s->position - first) return Status::kInvalidArgument;
  if (!can_drop(s->model->config)) return Status::kUnsupported;
  if (n == 0) return Status::kOk;
  const Dropped dropped = {first, n};
  const size_t n_kinds = s->caches().size();
  for (size_t kind = 0; kind < n_kinds; ++kind) {
    if (!can_lose(*s, kind, dropped)) return Status::kForgotten;
  }
  const uint32_t end = s->position;
  for (size_t kind = 0; kind < n_kinds; ++kind) {
    drop_rows(*w, *s, kind, dropped);
    KvCache& cache = s->caches()[kind];
    if (has_gone_round(cache)) cache.first_kept = end != n ? kept_after(cache, dropped) : 0;
  }
  std::copy(s->history + first + n, s->history + end, s->history + first);
  s->position = end - n;
  s->first_moved = std::min(s->first_moved, first);
  if (s->first_moved >= s->position) s->first_moved = UINT32_MAX;
  if (s->position == 0) s->has_logits = false;
  return Status::kOk;
}

}  // namespace
}  // namespace cria

extern "C" cria_status cria_copy_prefix(cria_session* session, const cria_session* from,
                                        uint32_t n_positions) {
  if (session == nullptr || from == nullptr || session == from || session->model != from->model ||
      session->kv_format != from->kv_format || !cria::are_turned_alike(*session, *from)) {
    return CRIA_INVALID_ARGUMENT;
  }
  return cria::to_public(cria::copy_prefix(session, *from, n_positions));
}

extern "C" cria_status cria_drop(cria_workspace* workspace, cria_session* session, uint32_t first,
                                 uint32_t n) {
  if (workspace == nullptr || session == nullptr || session->model != workspace->model) {
    return CRIA_INVALID_ARGUMENT;
  }
  return cria::to_public(cria::drop(workspace, session, first, n));
}
