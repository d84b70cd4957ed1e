// Where masks are made: tokens in the order of their bytes, of which what they share is walked
// once.
#include "runtime/json/masks.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "quant/format/align.h"
#include "quant/format/checksum.h"
#include "quant/text/utf8.h"
#include "runtime/decode/model.h"
#include "runtime/json/pattern.h"

namespace cria::json {
namespace {

// What a state holds.
struct SavedHeader {
  uint32_t schema;  // Masks::id
  uint16_t n_readings;
  uint16_t n_frames;
};
struct SavedReadings {
  SavedHeader header;
  Reading readings[kMostReadings];
  Frame frames[kMostFrames];
};
static_assert(sizeof(SavedReadings) <= kStateWords * sizeof(uint64_t));

constexpr uint32_t kWordBits = 32;
constexpr float kLeastLogit = -1e30f;

void allow(uint32_t token, uint32_t* bits) {
  bits[token / kWordBits] |= uint32_t{1} << (token % kWordBits);
}

void refuse(uint32_t token, uint32_t* bits) {
  bits[token / kWordBits] &= ~(uint32_t{1} << (token % kWordBits));
}

// Null: it is none of which markers consist.
const TokenEntry* find_special(const MarkedTokens& marked, uint32_t token) {
  const TokenEntry* const first = marked.specials;
  const TokenEntry* const end = first + marked.n_specials;
  const TokenEntry* const found =
      std::find_if(first, end, [token](const TokenEntry& e) { return e.token == token; });
  return found == end ? nullptr : found;
}

// After all bytes of a token; false when the walk does not go there.
bool walk_bytes(Walk* walk, std::string_view bytes) {
  for (uint32_t i = 0; i < bytes.size(); ++i) {
    if (!walk->step(i, bytes[i])) return false;
  }
  return true;
}

bool walk_special(Walk* walk, std::string_view bytes) {
  walk->walk_special(true);
  const bool is_possible = walk_bytes(walk, bytes);
  walk->walk_special(false);
  return is_possible;
}

// So often, in steps of a walk, somebody is asked whether a mask is still wanted.
constexpr uint64_t kStepsPerLook = uint64_t{1} << 16;

// Where a mask is made.
class MaskMaker {
 public:
  MaskMaker(const Masks& masks, Walk* walk, uint32_t* bits)
      : masks_(masks), vocabulary_(*masks.vocabulary), walk_(walk), bits_(bits) {}

  Status make();

 private:
  [[nodiscard]] bool is_unwanted();
  [[nodiscard]] bool is_known(uint32_t reading) const;
  bool walk_group(const TokenGroup& group);
  bool walk_range(const TokenGroup& group, uint32_t byte);
  void forget_range(const TokenGroup& group, uint32_t byte);
  bool walk_again(const uint32_t* tokens, uint32_t n_tokens);
  bool walk_strings_again();
  bool allow_text(uint32_t rule);
  void walk_specials();
  void settle_ends(bool may_end);
  bool walk_pattern(const Reading& reading);
  bool allow_plain();

  const Masks& masks_;
  const cria_json_vocabulary& vocabulary_;
  Walk* walk_;
  uint32_t* bits_;
  uint64_t next_look_ = kStepsPerLook;
};

bool MaskMaker::is_unwanted() {
  if (walk_->n_steps() < next_look_) return false;
  next_look_ = walk_->n_steps() + kStepsPerLook;
  return masks_.wants_stop != nullptr && masks_.wants_stop(masks_.stop_context) != 0;
}

// Tokens of a group along which the walk goes to their ends. False: nobody wants them any more.
bool MaskMaker::walk_group(const TokenGroup& group) {
  for (uint32_t byte = 0; byte < kFirstBytes; ++byte) {
    if (!walk_range(group, byte)) return false;
  }
  return true;
}

// The same of those that begin with a byte.
bool MaskMaker::walk_range(const TokenGroup& group, uint32_t byte) {
  const uint32_t begin = group.first[byte];
  const uint32_t end = group.first[byte + 1];
  if (begin == end || !walk_->step(0, static_cast<char>(static_cast<uint8_t>(byte)))) return true;
  uint32_t n_walked = 1;  // bytes of the token before that could come
  for (uint32_t i = begin; i < end; ++i) {
    const TokenEntry& e = group.entries[i];
    const uint32_t n_shared = i == begin ? 1 : e.n_shared;
    if (n_shared > n_walked) continue;
    if (is_unwanted()) return false;
    n_walked = n_shared;
    const char* const bytes = vocabulary_.text + e.offset;
    while (n_walked < e.n_bytes && walk_->step(n_walked, bytes[n_walked])) ++n_walked;
    if (n_walked == e.n_bytes) allow(e.token, bits_);
  }
  return true;
}

void MaskMaker::forget_range(const TokenGroup& group, uint32_t byte) {
  for (uint32_t i = group.first[byte]; i < group.first[byte + 1]; ++i) {
    refuse(group.entries[i].token, bits_);
  }
}

// Tokens that can come only where the walk goes along them.
bool MaskMaker::walk_again(const uint32_t* tokens, uint32_t n_tokens) {
  for (uint32_t i = 0; i < n_tokens; ++i) {
    if (is_unwanted()) return false;
    char bytes[kMostTokenBytes];
    const uint32_t n = token_bytes(vocabulary_.model->tokenizer, tokens[i], bytes);
    refuse(tokens[i], bits_);
    if (walk_bytes(walk_, {bytes, n})) allow(tokens[i], bits_);
  }
  return true;
}

// Plain tokens that could be in a string, but for what ends it or its value.
bool MaskMaker::walk_strings_again() {
  for (uint32_t byte = 0; byte < kFirstBytes; ++byte) {
    const bool goes_on = walk_->step(0, static_cast<char>(static_cast<uint8_t>(byte)));
    if (goes_on && walk_->stays_string(1)) continue;
    forget_range(vocabulary_.plain, byte);
    if (goes_on && !walk_range(vocabulary_.plain, byte)) return false;
  }
  return walk_again(masks_.marked->in_values, masks_.marked->n_in_values);
}

// In text that nothing holds any token can come, but those that end it and go on as nothing does.
// In thinking before calls no special tokens can.
bool MaskMaker::allow_text(uint32_t rule) {
  const cria_json_vocabulary& v = vocabulary_;
  if (masks_.schema.rules->rules[rule].may_end) {
    for (uint32_t i = 0; i < v.model->scalars().vocab_size; ++i) allow(i, bits_);
  } else {
    std::copy(v.plain_bits, v.plain_bits + v.n_words, bits_);
    const TokenEntry* const end = v.others.entries + v.others.first[kFirstBytes];
    for (const TokenEntry* e = v.others.entries; e != end; ++e) allow(e->token, bits_);
  }
  // What ends it is whole in a token, or has begun.
  const bool has_begun = !walk_->is_between_markers();
  for (uint32_t byte = 0; byte < kFirstBytes && has_begun; ++byte) {
    const bool goes_on = walk_->step(0, static_cast<char>(static_cast<uint8_t>(byte)));
    if (goes_on && !walk_->leaves_text(1)) continue;
    for (const TokenGroup* const group : {&v.plain, &v.others}) {
      forget_range(*group, byte);
      if (!walk_range(*group, byte)) return false;
    }
  }
  return walk_again(masks_.marked->in_text, masks_.marked->n_in_text);
}

void MaskMaker::walk_specials() {
  const MarkedTokens& marked = *masks_.marked;
  for (uint32_t i = 0; i < marked.n_specials; ++i) {
    const TokenEntry& e = marked.specials[i];
    refuse(e.token, bits_);
    if (walk_special(walk_, {marked.text + e.offset, e.n_bytes})) allow(e.token, bits_);
  }
}

// The same of plain tokens in one string of a pattern, where a step is hardly more than an AND.
bool MaskMaker::walk_pattern(const Reading& reading) {
  const cria_json_vocabulary& v = vocabulary_;
  const PatternPools& pools = masks_.schema.pools;
  const Node& node = masks_.schema.nodes[reading.node];
  const Pattern& pattern = masks_.schema.patterns[node.pattern];
  PositionSet sets[kMostTokenBytes + 1];     // after the first bytes; nothing inside a character
  PositionSet next[kMostTokenBytes + 1];     // what those that are there can be followed by
  uint8_t n_read[kMostTokenBytes + 1] = {};  // characters
  const auto followers = [&](const PositionSet& set, uint32_t n_characters) {
    return masks_.schema.leads_on(node, pattern_followers(pools, pattern, set),
                                  reading.n_characters + n_characters + 1);
  };
  sets[0] = reading.positions;
  next[0] = followers(sets[0], 0);
  uint32_t n_walked = 0;
  uint32_t n_refused = kMostTokenBytes + 1;  // so many bytes of the token before are no beginning
  const TokenEntry* const end = v.plain.entries + v.plain.first[kFirstBytes];
  for (const TokenEntry* e = v.plain.entries; e != end; ++e) {
    if (e->n_shared >= n_refused) continue;
    if (is_unwanted()) return false;
    const char* const bytes = v.text + e->offset;
    // Back to where a character begins.
    n_walked = e->n_shared;
    n_refused = kMostTokenBytes + 1;
    while (n_walked > 0 && n_walked < e->n_bytes &&
           (static_cast<uint8_t>(bytes[n_walked]) & 0xc0) == 0x80)
      --n_walked;
    while (n_walked < e->n_bytes) {
      const Utf8Char c = decode_utf8(bytes + n_walked, e->n_bytes - n_walked);
      const PositionSet read = pattern_fitting(pools, pattern, next[n_walked], c.code);
      const uint32_t behind = n_walked + c.n_bytes;
      n_refused = read.empty() ? behind : n_refused;
      walk_->add_steps(1);
      if (read.empty()) break;
      n_read[behind] = static_cast<uint8_t>(n_read[n_walked] + 1);
      const bool is_same = node.first_alive == kNone && read == sets[n_walked];
      next[behind] = is_same ? next[n_walked] : followers(read, n_read[behind]);
      walk_->add_steps(is_same ? 0 : pattern.n_positions);
      sets[behind] = read;
      n_walked = behind;
    }
    if (n_walked == e->n_bytes) allow(e->token, bits_);
  }
  return true;
}

bool is_plain_text(const Reading& r) {
  return (r.phase == Phase::kText || r.phase == Phase::kBareText) && r.text == TextPhase::kPlain &&
         r.free_name != kBareName;
}

// Whether a reading before this one, of the same pattern, is where it is.
bool MaskMaker::is_known(uint32_t reading) const {
  const Reading* const first = walk_->readings(0);
  const Reading& r = first[reading];
  return std::any_of(first, first + reading, [&r](const Reading& other) {
    return is_plain_text(other) && other.free_name == 0 && other.node == r.node &&
           other.n_characters == r.n_characters && other.positions == r.positions;
  });
}

// A plain token leaves a string a string: each reading says for itself which can come, and only
// those that are no strings, or in the middle of a character, are walked byte by byte.
bool MaskMaker::allow_plain() {
  const cria_json_vocabulary& v = vocabulary_;
  uint32_t most = 0;  // plain characters that can come
  for (uint32_t i = 0; i < walk_->n_readings(0); ++i) {
    most = std::max(most, plain_characters(masks_.schema, walk_->readings(0)[i]));
  }
  const bool is_marked = masks_.schema.rules != nullptr && masks_.schema.rules->mark.n_bytes > 0;
  if (most == kEndless) {
    for (uint32_t i = 0; i < v.n_words; ++i) bits_[i] |= v.plain_bits[i];
    return !is_marked || walk_strings_again();
  }
  const TokenEntry* const end = v.plain.entries + v.plain.first[kFirstBytes];
  for (const TokenEntry* e = v.plain.entries; most > 0 && e != end; ++e) {
    if (e->n_characters <= most) allow(e->token, bits_);
  }
  const bool has_strings =
      std::any_of(walk_->readings(0), walk_->readings(0) + walk_->n_readings(0), is_plain_text);
  if (is_marked && has_strings && !walk_strings_again()) return false;
  for (uint32_t i = 0; i < walk_->n_readings(0); ++i) {
    const Reading& r = walk_->readings(0)[i];
    const bool has_pattern = is_plain_text(r) && masks_.schema.nodes[r.node].pattern != kNone;
    if (has_pattern && !is_known(i) && !walk_pattern(r)) return false;
  }
  walk_->keep_readings([](const Reading& r) { return !is_plain_text(r); });
  return walk_->n_readings(0) == 0 || walk_group(v.plain);
}

// End tokens where the document may end. Of a model whose end token is a marker, that where it is.
void MaskMaker::settle_ends(bool may_end) {
  const format::ModelScalars& config = vocabulary_.model->scalars();
  for (uint32_t i = 0; i < config.n_end_tokens; ++i) {
    const uint32_t token = config.end_tokens[i];
    if (may_end) {
      allow(token, bits_);
    } else if (masks_.marked != nullptr && find_special(*masks_.marked, token) == nullptr) {
      refuse(token, bits_);
    }
  }
}

Status MaskMaker::make() {
  std::fill(bits_, bits_ + vocabulary_.n_words, 0);
  const bool may_end = walk_->may_end(0);
  uint32_t rule = 0;
  if (masks_.marked != nullptr && walk_->is_in_text(&rule)) {
    if (!allow_text(rule)) return Status::kCancelled;
    walk_specials();
  } else {
    // Before readings of strings are forgotten.
    if (masks_.marked != nullptr) walk_specials();
    if (!walk_group(vocabulary_.others) || !allow_plain()) return Status::kCancelled;
  }
  settle_ends(may_end);
  return Status::kOk;
}

bool has_all(const cria_json_vocabulary& v, const uint32_t* bits) {
  const uint32_t n_tokens = v.model->scalars().vocab_size;
  const uint32_t n_whole = n_tokens / kWordBits;
  for (uint32_t i = 0; i < n_whole; ++i) {
    if (bits[i] != ~uint32_t{0}) return false;
  }
  const uint32_t rest = (uint32_t{1} << (n_tokens % kWordBits)) - 1;
  return rest == 0 || (bits[n_whole] & rest) == rest;
}

// The mask of a state, kept from before or made now; null: every token can come.
Status mask_of(Masks* masks, const uint64_t* state, const uint32_t** mask) {
  Walk walk = walk_of(*masks);
  CRIA_TRY(resume(*masks, state, &walk));
  const uint64_t hash = xxh64(state, kStateWords * sizeof *state);
  const uint64_t key = hash != 0 ? hash : 1;
  ++masks->n_masks;
  uint32_t oldest = 0;
  for (uint32_t i = 0; i < kKeptMasks; ++i) {
    KeptMask& kept = masks->kept[i];
    if (kept.key == key) {
      kept.used = masks->n_masks;
      *mask = kept.has_all ? nullptr : masks->bits + size_t{i} * masks->vocabulary->n_words;
      return Status::kOk;
    }
    if (kept.used < masks->kept[oldest].used) oldest = i;
  }
  uint32_t* const bits = masks->bits + size_t{oldest} * masks->vocabulary->n_words;
  masks->kept[oldest] = {};
  CRIA_TRY(MaskMaker(*masks, &walk, bits).make());
  if (std::all_of(bits, bits + masks->vocabulary->n_words, [](uint32_t w) { return w == 0; })) {
    return Status::kBadState;
  }
  masks->kept[oldest] = {key, masks->n_masks, has_all(*masks->vocabulary, bits)};
  *mask = masks->kept[oldest].has_all ? nullptr : bits;
  return Status::kOk;
}

}  // namespace

uint64_t masks_bytes(const cria_json_vocabulary& vocabulary, uint32_t longest) {
  return aligned(Walk::readings_for(longest) * sizeof(Reading)) +
         aligned(Walk::frames_for(longest) * sizeof(Frame)) +
         aligned(uint64_t{vocabulary.n_words} * sizeof(uint32_t) * kKeptMasks);
}

Status take_masks(const cria_json_vocabulary& vocabulary, uint32_t longest, Arena* arena,
                  Masks* masks) {
  masks->vocabulary = &vocabulary;
  masks->n_readings = Walk::readings_for(longest);
  masks->n_frames = Walk::frames_for(longest);
  CRIA_TRY(take(arena, masks->n_readings * sizeof(Reading), &masks->readings));
  CRIA_TRY(take(arena, masks->n_frames * sizeof(Frame), &masks->frames));
  return take(arena, uint64_t{vocabulary.n_words} * sizeof(uint32_t) * kKeptMasks, &masks->bits);
}

Walk walk_of(const Masks& masks) {
  return {&masks.schema, masks.readings, masks.n_readings, masks.frames, masks.n_frames};
}

// What the state holds is looked at where the walk has it: a copy would take as much stack again.
Status resume(const Masks& masks, const uint64_t* state, Walk* walk) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(state);
  SavedHeader saved;
  std::memcpy(&saved, bytes, sizeof saved);
  if (saved.schema != masks.id || saved.n_readings > kMostReadings ||
      saved.n_frames > kMostFrames) {
    return Status::kBadState;
  }
  std::memcpy(masks.readings, bytes + offsetof(SavedReadings, readings),
              saved.n_readings * sizeof(Reading));
  std::memcpy(masks.frames, bytes + offsetof(SavedReadings, frames),
              saved.n_frames * sizeof(Frame));
  if (!readings_hold(masks.schema, masks.readings, saved.n_readings, masks.frames,
                     saved.n_frames)) {
    return Status::kBadState;
  }
  walk->begin_there(saved.n_readings, saved.n_frames);
  return Status::kOk;
}

void keep(const Masks& masks, const Walk& walk, uint32_t n, uint64_t* state) {
  SavedReadings saved = {};
  uint32_t n_readings = 0;
  uint32_t n_frames = 0;
  walk.save(n, saved.readings, &n_readings, saved.frames, &n_frames);
  saved.header = {masks.id, static_cast<uint16_t>(n_readings), static_cast<uint16_t>(n_frames)};
  std::fill(state, state + kStateWords, 0);
  std::memcpy(state, &saved, sizeof saved);
}

Status apply_mask(Masks* masks, const uint64_t* state, float* logits) {
  const uint32_t* mask = nullptr;
  CRIA_TRY(mask_of(masks, state, &mask));
  if (mask == nullptr) return Status::kOk;
  for (uint32_t i = 0; i < masks->vocabulary->model->scalars().vocab_size; ++i) {
    const bool is_allowed = (mask[i / kWordBits] >> (i % kWordBits) & 1) != 0;
    // Not a number too is raised.
    const float raised = logits[i] > kLeastLogit ? logits[i] : kLeastLogit;
    logits[i] = is_allowed ? raised : -HUGE_VALF;
  }
  return Status::kOk;
}

Status accept_token(const Masks& masks, uint64_t* state, uint32_t token) {
  const cria_model* const model = masks.vocabulary->model;
  Walk walk = walk_of(masks);
  CRIA_TRY(resume(masks, state, &walk));
  if (token >= model->scalars().vocab_size) return Status::kInvalidArgument;
  const bool is_end = cria_is_end_token(model, token) != 0;
  if (is_end && walk.may_end(0)) return Status::kOk;
  char bytes[kMostTokenBytes];
  const uint32_t n_bytes = is_end ? 0 : token_bytes(model->tokenizer, token, bytes);
  if (n_bytes > 0) {
    if (!walk_bytes(&walk, {bytes, n_bytes})) return Status::kInvalidArgument;
    keep(masks, walk, n_bytes, state);
    return Status::kOk;
  }
  if (masks.marked == nullptr) return Status::kInvalidArgument;
  const MarkedTokens& marked = *masks.marked;
  if (const TokenEntry* const e = find_special(marked, token); e != nullptr) {
    if (!walk_special(&walk, {marked.text + e->offset, e->n_bytes})) {
      return Status::kInvalidArgument;
    }
    keep(masks, walk, e->n_bytes, state);
    return Status::kOk;
  }
  uint32_t rule = 0;
  if (is_end || !walk.is_in_text(&rule) || !masks.schema.rules->rules[rule].may_end) {
    return Status::kInvalidArgument;
  }
  walk.begin_rule(rule);
  keep(masks, walk, 0, state);
  return Status::kOk;
}

bool can_take_special(const Masks& masks, const uint64_t* state, const TokenEntry& special) {
  Walk walk = walk_of(masks);
  return resume(masks, state, &walk) == Status::kOk &&
         walk_special(&walk, {masks.marked->text + special.offset, special.n_bytes});
}

bool can_go_on(Walk* walk) {
  for (uint32_t byte = 0; byte < kFirstBytes; ++byte) {
    if (walk->step(0, static_cast<char>(static_cast<uint8_t>(byte)))) return true;
  }
  return false;
}

}  // namespace cria::json
