// Saving and loading a conversation: StateHeader, tokens, the used rows of the KV cache, logits.
#include "runtime/decode/state.h"

#include <algorithm>
#include <cstring>

#include "quant/format/checksum.h"
#include "runtime/decode/session.h"
#include "runtime/decode/slots.h"

namespace cria {
namespace {

constexpr uint64_t kStateMagic = 0x3365746174737263;  // "crstate3"

struct StateHeader {
  uint64_t magic;
  uint64_t fingerprint;  // of the model file
  uint64_t checksum;     // XXH64 of the state, with zero here
  uint64_t random_state;
  uint32_t kv_format;
  uint32_t position;
  uint32_t has_logits;
  uint32_t long_rope;  // bit i: keys are turned by RoPE table i's rates for long contexts
};
static_assert(sizeof(StateHeader) == 48);

uint32_t long_rope(const cria_session& s) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < s.model->scalars().n_rope_tables; ++i) {
    const uint32_t original = s.model->scalars().rope_tables[i].original_context;
    if (original != 0 && s.context > original) bits |= 1u << i;
  }
  return bits;
}

enum class Piece { kTokens, kCodes, kNibbles, kScales, kSignedScales, kFloats };

Piece piece_of(StateValues values) {
  switch (values) {
    case StateValues::kCodes:
      return Piece::kCodes;
    case StateValues::kNibbles:
      return Piece::kNibbles;
    case StateValues::kScales:
      return Piece::kScales;
    case StateValues::kSignedScales:
      return Piece::kSignedScales;
    case StateValues::kFloats:
      break;
  }
  return Piece::kFloats;
}

// Visits the rows from first on that a state has of one part and head: in one piece, or of a ring
// in two.
template <typename Visit>
void visit_rows(const KvCache& cache, size_t part, size_t head, uint32_t first, uint32_t position,
                const Visit& visit) {
  for (uint32_t at = first; at < position;) {
    const uint32_t place = at % cache.n_positions;
    const uint32_t n = std::min(cache.n_positions - place, position - at);
    visit(piece_of(cache.values[part]), cache.at(part, cache.row(0, head, at)),
          size_t{n} * cache.row_bytes[part]);
    at += n;
  }
}

// Visits the blocks of every layer; those of position 0 are all zeros.
template <typename Visit>
void visit_blocks(const KvCache& cache, uint32_t slot, uint32_t position, const Visit& visit) {
  for (size_t layer = 0; layer < cache.n_layers && position != 0; ++layer) {
    for (size_t part = 0; part < cache.n_parts; ++part) {
      visit(piece_of(cache.values[part]), cache.at(part, cache.row(layer, 0, slot)),
            size_t{cache.row_bytes[part]});
    }
  }
}

// Visits every used piece of the session in the order of the state: those positions that the next
// token attends to, and the blocks in a slot.
template <typename Visit>
void visit_pieces(const cria_session& s, uint32_t position, uint32_t slot, bool has_logits,
                  const Visit& visit) {
  visit(Piece::kTokens, s.history, position * sizeof(uint32_t));
  for (size_t kind = 0; kind < s.caches().size(); ++kind) {
    const KvCache& cache = s.caches()[kind];
    if (kHasBlocks && cache.keeps == Keeps::kBlock) {
      visit_blocks(cache, slot, position, visit);
      continue;
    }
    const uint32_t first = first_attended(s.model->config.kinds[kind], position);
    for (size_t head = 0; head < size_t{cache.n_layers} * cache.n_heads; ++head) {
      for (size_t part = 0; part < cache.n_parts; ++part) {
        visit_rows(cache, part, head, first, position, visit);
      }
    }
  }
  if (has_logits) {
    visit(Piece::kFloats, s.logits, size_t{s.model->scalars().vocab_size} * sizeof(float));
  }
}

size_t state_bytes(const cria_session& s, uint32_t position, bool has_logits) {
  size_t n_bytes = sizeof(StateHeader) + position * sizeof(uint32_t) +
                   (has_logits ? size_t{s.model->scalars().vocab_size} * sizeof(float) : 0);
  for (size_t kind = 0; kind < s.caches().size(); ++kind) {
    const KvCache& cache = s.caches()[kind];
    size_t row_bytes = 0;
    for (size_t part = 0; part < cache.n_parts; ++part) row_bytes += cache.row_bytes[part];
    const uint32_t first = first_attended(s.model->config.kinds[kind], position);
    const bool is_block = kHasBlocks && cache.keeps == Keeps::kBlock;
    const uint32_t n_rows = is_block ? (position != 0 ? 1 : 0) : position - first;
    n_bytes += size_t{cache.n_layers} * cache.n_heads * n_rows * row_bytes;
  }
  return n_bytes;
}

// Whether a state of the first positions of a session has its newest logits.
bool keeps_logits(const cria_session& s, uint32_t position) {
  return s.has_logits && position == s.position;
}

Status save(const cria_session& s, uint32_t position, uint8_t* out, size_t n_bytes) {
  if (position > s.position) return Status::kInvalidArgument;
  if (!can_follow(s, position)) return Status::kForgotten;
  const bool has_logits = keeps_logits(s, position);
  if (n_bytes < state_bytes(s, position, has_logits)) return Status::kBufferTooSmall;
  uint8_t* p = out + sizeof(StateHeader);
  const uint32_t slot = s.states.slot_at(position);
  visit_pieces(s, position, slot, has_logits, [&](Piece, const void* piece, size_t bytes) {
    std::memcpy(p, piece, bytes);
    p += bytes;
  });
  StateHeader header = {};
  header.magic = kStateMagic;
  header.fingerprint = s.model->index.fingerprint;
  header.random_state = s.random.state;
  header.kv_format = static_cast<uint32_t>(s.kv_format);
  header.position = position;
  header.has_logits = has_logits ? 1 : 0;
  header.long_rope = long_rope(s);
  header.checksum =
      sealed_xxh64(header, out + sizeof header, static_cast<size_t>(p - out) - sizeof header);
  std::memcpy(out, &header, sizeof header);
  return Status::kOk;
}

bool all_finite_bf16(const uint8_t* p, size_t n_bytes) {
  constexpr unsigned kExponent = 0x7f80;
  for (size_t i = 0; i < n_bytes; i += sizeof(uint16_t)) {
    uint16_t bits;
    std::memcpy(&bits, p + i, sizeof bits);
    if ((bits & kExponent) == kExponent) return false;
  }
  return true;
}

// Whether a session could have saved these bytes: tokens are in the vocabulary, codes and scales
// are those that quantizing gives. Floats may be any, as a model's may be: arithmetic and sampling
// take what is infinite or not a number. So may codes of 4 bits, which all stand for something.
bool piece_holds(Piece kind, const uint8_t* p, size_t n_bytes, uint32_t vocab_size) {
  constexpr int kNoCode = 0x80;  // -128
  constexpr uint32_t kInfinity = 0x7f800000;
  if (kind == Piece::kFloats || kind == Piece::kNibbles || n_bytes == 0) return true;
  if (kind == Piece::kSignedScales) return all_finite_bf16(p, n_bytes);
  if (kind == Piece::kCodes) return std::memchr(p, kNoCode, n_bytes) == nullptr;
  for (size_t i = 0; i < n_bytes; i += sizeof(uint32_t)) {
    uint32_t word;
    std::memcpy(&word, p + i, sizeof word);
    // The bits of a float that is neither negative nor infinite nor NaN are below infinity's.
    if (word >= (kind == Piece::kTokens ? vocab_size : kInfinity)) return false;
  }
  return true;
}

Status load(cria_session* s, const uint8_t* state, size_t n_bytes) {
  StateHeader header;
  if (n_bytes < sizeof header) return Status::kBadState;
  std::memcpy(&header, state, sizeof header);
  if (header.magic != kStateMagic || header.fingerprint != s->model->index.fingerprint ||
      header.kv_format != static_cast<uint32_t>(s->kv_format) || header.has_logits > 1 ||
      header.long_rope != long_rope(*s)) {
    return Status::kBadState;
  }
  if (header.position > s->context) return Status::kContextFull;
  const bool has_logits = header.has_logits != 0;
  if (has_logits && header.position == 0) return Status::kBadState;
  if (n_bytes != state_bytes(*s, header.position, has_logits) ||
      sealed_xxh64(header, state + sizeof header, n_bytes - sizeof header) != header.checksum) {
    return Status::kBadState;
  }
  const uint8_t* p = state + sizeof header;
  bool holds = true;
  visit_pieces(*s, header.position, 0, has_logits, [&](Piece kind, const void*, size_t bytes) {
    holds = holds && piece_holds(kind, p, bytes, s->model->scalars().vocab_size);
    p += bytes;
  });
  if (!holds) return Status::kBadState;
  p = state + sizeof header;
  const uint32_t slot = kHasBlocks ? replace_blocks(s, header.position) : 0;
  visit_pieces(*s, header.position, slot, has_logits, [&](Piece, void* piece, size_t bytes) {
    std::memcpy(piece, p, bytes);
    p += bytes;
  });
  s->position = header.position;
  for (size_t kind = 0; kind < s->caches().size(); ++kind) {
    s->caches()[kind].first_kept = first_attended(s->model->config.kinds[kind], header.position);
  }
  s->first_moved = UINT32_MAX;
  s->has_logits = has_logits;
  s->random.state = header.random_state;
  return Status::kOk;
}

}  // namespace

uint32_t positions_of_state(const uint8_t* state, size_t n_bytes) {
  StateHeader header = {};
  if (n_bytes >= sizeof header) std::memcpy(&header, state, sizeof header);
  return header.position;
}

}  // namespace cria

extern "C" {

size_t cria_state_size(const cria_session* session) {
  return cria_state_prefix_size(session, cria_position(session));
}

cria_status cria_state_save(const cria_session* session, void* destination, size_t n_bytes) {
  return cria_state_prefix_save(session, cria_position(session), destination, n_bytes);
}

size_t cria_state_prefix_size(const cria_session* session, uint32_t n_positions) {
  if (session == nullptr || n_positions > session->position) return 0;
  return cria::state_bytes(*session, n_positions, cria::keeps_logits(*session, n_positions));
}

cria_status cria_state_prefix_save(const cria_session* session, uint32_t n_positions,
                                   void* destination, size_t n_bytes) {
  if (session == nullptr || destination == nullptr) return CRIA_INVALID_ARGUMENT;
  return cria::to_public(
      cria::save(*session, n_positions, static_cast<uint8_t*>(destination), n_bytes));
}

cria_status cria_state_load(cria_session* session, const void* state, size_t n_bytes) {
  if (session == nullptr || state == nullptr) return CRIA_INVALID_ARGUMENT;
  return cria::to_public(cria::load(session, static_cast<const uint8_t*>(state), n_bytes));
}

}  // extern "C"
