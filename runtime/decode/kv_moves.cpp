// cria_copy_prefix and cria_drop: positions of the KV cache that become others.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "quant/model_layout.h"
#include "quant/tensor_roles.h"
#include "runtime/base/features.h"
#include "runtime/base/scalar_math.h"
#include "runtime/decode/session.h"
#include "runtime/decode/workspace.h"

namespace cria {
namespace {

// The parts of a cache, row by row.
struct Part {
  uint8_t* rows;
  size_t row_bytes;
};
struct Parts {
  Part part[4];
  size_t n;
};

Parts parts_of(const KvCache& kv) {
  Parts parts = {{{kv.keys, kv.row_bytes.keys}, {kv.values, kv.row_bytes.values}}, 2};
  if (kv.kv_format != KvFormat::kF32) {
    auto* const key_scales = reinterpret_cast<uint8_t*>(kv.key_scales);
    parts.part[parts.n++] = {key_scales, kv.row_bytes.key_scales};
    parts.part[parts.n++] = {kv.value_scales, kv.row_bytes.value_scales};
  }
  return parts;
}

size_t n_heads(const cria_session& s) {
  return size_t{s.model->config.n_layers} * s.model->config.n_kv_heads;
}

// Copying a prefix -------------------------------------------------------------------------------

Status copy_prefix(cria_session* to, const cria_session& from, uint32_t n) {
  if (n > from.position) return Status::kInvalidArgument;
  if (n > to->context) return Status::kContextFull;
  if (!can_follow(from, n)) return Status::kForgotten;
  const Parts parts = parts_of(to->kv);
  const Parts of_from = parts_of(from.kv);
  const uint32_t first = first_attended(from, n);
  for (size_t head = 0; head < n_heads(*to); ++head) {
    for (size_t i = 0; i < parts.n; ++i) {
      const size_t n_bytes = parts.part[i].row_bytes;
      for (uint32_t position = first; position < n; ++position) {
        std::memcpy(parts.part[i].rows + to->kv.row(0, head, position) * n_bytes,
                    of_from.part[i].rows + from.kv.row(0, head, position) * n_bytes, n_bytes);
      }
    }
  }
  std::copy(from.history, from.history + n, to->history);
  to->position = n;
  to->first_kept = first;
  to->first_moved = from.first_moved < n ? from.first_moved : UINT32_MAX;
  to->has_logits = from.has_logits && n == from.position;
  if (to->has_logits) {
    std::copy(from.logits, from.logits + from.model->config.vocab_size, to->logits);
  }
  return Status::kOk;
}

// Dropping positions -----------------------------------------------------------------------------

// One row of one head while it is on its way.
struct RowBuffer {
  float* key;      // [head_dim]: floats, or as the cache has it when it is not turned
  uint8_t* value;  // as the cache has it: codes and their scales, or floats
  float key_scale;
};

// Moves rows to where they stand n positions lower.
class DownMove {
 public:
  // scratch [moving_floats]
  DownMove(const cria_session& s, uint32_t n, float* scratch)
      : config_(s.model->config), kv_(s.kv), kernels_(s.model->kernels), scratch_(scratch) {
    const size_t half = rotary_dim(config_) / 2;
    for (size_t i = 0; i < half; ++i) {
      // Without the factor of the embedding, which the keys have already.
      const float angle = static_cast<float>(n) * kv_.inverse_frequencies[i];
      const SinCos value = sin_cos(static_cast<double>(angle));
      scratch_[i] = static_cast<float>(value.cosine);
      scratch_[half + i] = -static_cast<float>(value.sine);
    }
  }

  // One of two that a task has.
  [[nodiscard]] RowBuffer buffer(size_t task, size_t which) const {
    float* place = scratch_ + (1 + 4 * task + 2 * which) * kv_.head_dim;
    // A head has two elements or more, so with their scales its codes are no longer than floats.
    return {place, reinterpret_cast<uint8_t*>(place + kv_.head_dim), 0.0f};
  }

  // Whether the keys of a head, counted through all layers, are turned.
  [[nodiscard]] bool turns(size_t head) const { return has_rope(config_, head / kv_.n_kv_heads); }

  void move(size_t head, size_t from, size_t to, RowBuffer* buffer) const {
    take(head, from, buffer);
    put(head, to, *buffer);
  }

  // The row of a place, its key turned back.
  void take(size_t head, size_t from, RowBuffer* buffer) const {
    const KvRowBytes& bytes = kv_.row_bytes;
    const uint8_t* key = kv_.keys + from * bytes.keys;
    if (is_f32() || !turns(head)) {
      std::memcpy(buffer->key, key, bytes.keys);
    } else {
      const auto* codes = reinterpret_cast<const int8_t*>(key);
      const float scale = kv_.key_scales[from];
      for (size_t d = 0; d < kv_.head_dim; ++d) {
        buffer->key[d] = static_cast<float>(codes[d]) * scale;
      }
    }
    std::memcpy(buffer->value, kv_.values + from * bytes.values, bytes.values);
    if (!is_f32()) {
      buffer->key_scale = kv_.key_scales[from];
      std::memcpy(buffer->value + bytes.values, kv_.value_scales + from * bytes.value_scales,
                  bytes.value_scales);
    }
    if (turns(head)) turn(buffer->key);
  }

  void put(size_t head, size_t to, const RowBuffer& buffer) const {
    const KvRowBytes& bytes = kv_.row_bytes;
    uint8_t* key = kv_.keys + to * bytes.keys;
    if (!is_f32()) {
      kv_.key_scales[to] = buffer.key_scale;
      std::memcpy(kv_.value_scales + to * bytes.value_scales, buffer.value + bytes.values,
                  bytes.value_scales);
    }
    if (is_f32() || !turns(head)) {
      std::memcpy(key, buffer.key, bytes.keys);
    } else {
      const size_t head_dim = kv_.head_dim;
      kernels_.quantize_row(buffer.key, head_dim, head_dim, head_dim,
                            reinterpret_cast<int8_t*>(key), kv_.key_scales + to, nullptr);
    }
    std::memcpy(kv_.values + to * bytes.values, buffer.value, bytes.values);
  }

 private:
  [[nodiscard]] bool is_f32() const { return kHasKvF32 && kv_.kv_format == KvFormat::kF32; }

  void turn(float* key) const {
    const size_t turned = rotary_dim(config_);
    kernels_.rope(key, 1, turned, scratch_, scratch_ + turned / 2);
  }

  const format::ModelConfig& config_;
  const KvCache& kv_;
  const Kernels& kernels_;
  float* scratch_;
};

// All rows of a head's ring, by n positions: each goes where another one stood, round and round,
// until the first of a round finds its place.
void turn_ring(const KvCache& kv, const DownMove& down, size_t head, size_t n, size_t task) {
  const size_t n_positions = kv.n_positions;
  const size_t distance = n % n_positions;
  const size_t n_rounds = std::gcd(distance, n_positions);
  RowBuffer first = down.buffer(task, 0);
  RowBuffer passing = down.buffer(task, 1);
  const size_t base = kv.row(0, head, 0);
  for (size_t round = 0; round < n_rounds; ++round) {
    down.take(head, base + round, &first);
    size_t to = round;
    for (size_t from = (to + distance) % n_positions; from != round;
         from = (from + distance) % n_positions) {
      down.move(head, base + from, base + to, &passing);
      to = from;
    }
    down.put(head, base + to, first);
  }
}

Status drop(cria_workspace* w, cria_session* s, uint32_t first, uint32_t n) {
  if (!w->can_run) return Status::kNoWeights;
  if (first > s->position || n > s->position - first) return Status::kInvalidArgument;
  if (n == 0) return Status::kOk;
  const uint32_t end = s->position;
  const bool has_gone_round = s->first_kept != 0;
  const uint32_t kept = std::max(s->first_kept, first + n) - n;
  if (has_gone_round) {
    // What is older than the forgotten stays where it is, which a ring's other rows do not.
    const bool has_older = first > s->first_kept;
    const bool is_enough = end - n == 0 || first_attended(*s, end - n) >= kept;
    if (has_older || !is_enough) return Status::kForgotten;
  }
  const DownMove down(*s, n, reinterpret_cast<float*>(w->scratch.data()));
  parallel_ranges(w->threads, n_heads(*s), [&](size_t begin, size_t last, size_t task) {
    RowBuffer buffer = down.buffer(task, 0);
    for (size_t head = begin; head < last; ++head) {
      if (has_gone_round) {
        turn_ring(s->kv, down, head, n, task);
        continue;
      }
      for (uint32_t position = first + n; position < end; ++position) {
        down.move(head, s->kv.row(0, head, position), s->kv.row(0, head, position - n), &buffer);
      }
    }
  });
  std::copy(s->history + first + n, s->history + end, s->history + first);
  s->position = end - n;
  s->first_kept = has_gone_round && s->position != 0 ? kept : 0;
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
      session->kv.kv_format != from->kv.kv_format ||
      session->kv.inverse_frequencies != from->kv.inverse_frequencies) {
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
