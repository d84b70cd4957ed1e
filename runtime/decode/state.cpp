// Saving and loading a conversation: StateHeader, tokens, the used rows of the KV cache, logits.
#include "runtime/decode/state.h"

#include <algorithm>
#include <cstring>

#include "quant/checksum.h"
#include "runtime/decode/session.h"

namespace cria {
namespace {

constexpr uint64_t kStateMagic = 0x3165746174737263;  // "crstate1"

struct StateHeader {
  uint64_t magic;
  uint64_t fingerprint;  // of the model file
  uint64_t checksum;     // XXH64 of everything behind the header
  uint64_t random_state;
  uint32_t kv_format;
  uint32_t position;
  uint32_t has_logits;
  uint32_t has_long_rope;  // keys are turned by the frequencies for long contexts
};
static_assert(sizeof(StateHeader) == 48);

uint32_t has_long_rope(const cria_session& s) {
  const Tensor& usual = *s.model->weights.outside.find(format::TensorRole::kRopeInverseFrequencies);
  return s.kv.inverse_frequencies == usual.floats() ? 0 : 1;
}

// Positions whose keys and values a state has: those that the next token attends to.
size_t kept_positions(const cria_session& s, uint32_t position) {
  return position - first_attended(s, position);
}

// Bytes of the KV cache that a state with this many positions holds.
size_t kv_bytes(const cria_session& s, uint32_t position) {
  const format::ModelConfig& c = s.model->config;
  const KvRowBytes& row = s.kv.row_bytes;
  return size_t{c.n_layers} * c.n_kv_heads * kept_positions(s, position) *
         (row.keys + row.values + row.key_scales + row.value_scales);
}

size_t state_bytes(const cria_session& s, uint32_t position, bool has_logits) {
  return sizeof(StateHeader) + position * sizeof(uint32_t) + kv_bytes(s, position) +
         (has_logits ? size_t{s.model->config.vocab_size} * sizeof(float) : 0);
}

enum class Piece { kTokens, kCodes, kNibbles, kScales, kSignedScales, kFloats };

// Visits the rows of an array, row_bytes each, that a state has of one head: in one piece, or of a
// ring in two.
template <typename Visit>
void visit_rows(const cria_session& s, Piece kind, void* rows, size_t row_bytes, size_t head_row,
                uint32_t position, const Visit& visit) {
  const size_t n_positions = s.kv.n_positions;
  for (size_t at = first_attended(s, position); at < position;) {
    const size_t place = at % n_positions;
    const size_t n = std::min<size_t>(n_positions - place, position - at);
    visit(kind, static_cast<uint8_t*>(rows) + (head_row + place) * row_bytes, n * row_bytes);
    at += n;
  }
}

// Visits every used piece of the session in the order of the state.
template <typename Visit>
void visit_pieces(const cria_session& s, uint32_t position, bool has_logits, const Visit& visit) {
  const KvCache& kv = s.kv;
  const bool is_f32 = kv.kv_format == KvFormat::kF32;
  const bool is_v4 = kv.kv_format == KvFormat::kK8V4;
  const Piece codes = is_f32 ? Piece::kFloats : Piece::kCodes;
  visit(Piece::kTokens, s.history, position * sizeof(uint32_t));
  for (size_t layer = 0; layer < s.model->config.n_layers; ++layer) {
    for (size_t head = 0; head < s.model->config.n_kv_heads; ++head) {
      const size_t row = kv.row(layer, head, 0);
      const auto visit_all = [&](Piece kind, void* rows, size_t row_bytes) {
        visit_rows(s, kind, rows, row_bytes, row, position, visit);
      };
      visit_all(codes, kv.keys, kv.row_bytes.keys);
      visit_all(is_v4 ? Piece::kNibbles : codes, kv.values, kv.row_bytes.values);
      if (is_f32) continue;
      visit_all(Piece::kScales, kv.key_scales, kv.row_bytes.key_scales);
      visit_all(is_v4 ? Piece::kSignedScales : Piece::kScales, kv.value_scales,
                kv.row_bytes.value_scales);
    }
  }
  if (has_logits) {
    visit(Piece::kFloats, s.logits, size_t{s.model->config.vocab_size} * sizeof(float));
  }
}

Status save(const cria_session& s, uint8_t* out, size_t n_bytes) {
  if (n_bytes < state_bytes(s, s.position, s.has_logits)) return Status::kBufferTooSmall;
  uint8_t* p = out + sizeof(StateHeader);
  visit_pieces(s, s.position, s.has_logits, [&](Piece, const void* piece, size_t bytes) {
    std::memcpy(p, piece, bytes);
    p += bytes;
  });
  StateHeader header = {};
  header.magic = kStateMagic;
  header.fingerprint = s.model->index.fingerprint;
  header.random_state = s.random.state;
  header.kv_format = static_cast<uint32_t>(s.kv.kv_format);
  header.position = s.position;
  header.has_logits = s.has_logits ? 1 : 0;
  header.has_long_rope = has_long_rope(s);
  header.checksum = xxh64(out + sizeof header, static_cast<size_t>(p - out) - sizeof header);
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
      header.kv_format != static_cast<uint32_t>(s->kv.kv_format) || header.has_logits > 1 ||
      header.has_long_rope != has_long_rope(*s)) {
    return Status::kBadState;
  }
  if (header.position > s->context) return Status::kContextFull;
  const bool has_logits = header.has_logits != 0;
  if (has_logits && header.position == 0) return Status::kBadState;
  if (n_bytes != state_bytes(*s, header.position, has_logits) ||
      xxh64(state + sizeof header, n_bytes - sizeof header) != header.checksum) {
    return Status::kBadState;
  }
  const uint8_t* p = state + sizeof header;
  bool holds = true;
  visit_pieces(*s, header.position, has_logits, [&](Piece kind, const void*, size_t bytes) {
    holds = holds && piece_holds(kind, p, bytes, s->model->config.vocab_size);
    p += bytes;
  });
  if (!holds) return Status::kBadState;
  p = state + sizeof header;
  visit_pieces(*s, header.position, has_logits, [&](Piece, void* piece, size_t bytes) {
    std::memcpy(piece, p, bytes);
    p += bytes;
  });
  s->position = header.position;
  s->first_kept = first_attended(*s, header.position);
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
  if (session == nullptr) return 0;
  return cria::state_bytes(*session, session->position, session->has_logits);
}

cria_status cria_state_save(const cria_session* session, void* destination, size_t n_bytes) {
  if (session == nullptr || destination == nullptr) return CRIA_INVALID_ARGUMENT;
  return cria::to_public(cria::save(*session, static_cast<uint8_t*>(destination), n_bytes));
}

cria_status cria_state_load(cria_session* session, const void* state, size_t n_bytes) {
  if (session == nullptr || state == nullptr) return CRIA_INVALID_ARGUMENT;
  return cria::to_public(cria::load(session, static_cast<const uint8_t*>(state), n_bytes));
}

}  // extern "C"
