// The functions of cria_json.h: a schema with what it takes to walk a vocabulary through it.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <cria_json.h>
#include "quant/align.h"
#include "quant/checksum.h"
#include "quant/utf8.h"
#include "runtime/base/arena.h"
#include "runtime/decode/model.h"
#include "runtime/json/automaton.h"
#include "runtime/json/text_part.h"
#include "runtime/json/vocabulary.h"

namespace cria::json {
namespace {

// What cria_json_state holds.
struct SavedReadings {
  uint32_t schema;  // a part of its text's hash
  uint16_t n_readings;
  uint16_t n_frames;
  Reading readings[kMostReadings];
  Frame frames[kMostFrames];
};
static_assert(sizeof(SavedReadings) <= sizeof(cria_json_state));

// Masks that were made last, by the state: in a string of a pattern it hardly ever changes.
constexpr uint32_t kKeptMasks = 4;

struct KeptMask {
  uint64_t key;   // hash of the state; 0: none
  uint64_t used;  // when
};

}  // namespace
}  // namespace cria::json

struct cria_json {
  const cria_json_vocabulary* vocabulary;
  cria::json::Schema schema;
  uint32_t id;
  cria::json::Reading* readings;
  cria::json::Frame* frames;
  uint32_t n_readings;  // there is room for
  uint32_t n_frames;
  cria::json::KeptMask kept[cria::json::kKeptMasks];
  uint64_t n_masks;
  uint32_t* bits;  // of the masks kept, one behind the other
  cria_json_stop_fn wants_stop;
  void* stop_context;
};

namespace cria::json {
namespace {

constexpr uint32_t kWordBits = 32;
constexpr float kLeastLogit = -1e30f;

Status need_bytes(const cria_json_vocabulary& v, std::string_view text, uint64_t* n_bytes,
                  Refusal* refusal) {
  uint64_t schema = 0;
  CRIA_TRY(schema_bytes(text, &schema, refusal));
  *n_bytes = aligned(sizeof(cria_json)) + schema +
             aligned(Walk::readings_for(v.longest) * sizeof(Reading)) +
             aligned(Walk::frames_for(v.longest) * sizeof(Frame)) +
             aligned(uint64_t{v.n_words} * sizeof(uint32_t) * kKeptMasks);
  return *n_bytes <= SIZE_MAX ? Status::kOk : Status::kUnsupported;
}

Status make_json(std::span<uint8_t> memory, const cria_json_vocabulary& v, std::string_view text,
                 cria_json** json, Refusal* refusal) {
  uint64_t schema_size = 0;
  uint64_t total = 0;
  CRIA_TRY(schema_bytes(text, &schema_size, refusal));
  CRIA_TRY(need_bytes(v, text, &total, refusal));
  if (memory.size() < total) return Status::kMemoryTooSmall;
  Arena arena(memory.data(), memory.size());
  cria_json* j = nullptr;
  uint8_t* tables = nullptr;
  CRIA_TRY(take(&arena, sizeof *j, &j));
  *j = {};
  CRIA_TRY(take(&arena, schema_size, &tables));
  CRIA_TRY(compile_schema(text, {tables, static_cast<size_t>(schema_size)}, &j->schema, refusal));
  j->vocabulary = &v;
  j->id = static_cast<uint32_t>(xxh64(text.data(), text.size()));
  j->n_readings = Walk::readings_for(v.longest);
  j->n_frames = Walk::frames_for(v.longest);
  CRIA_TRY(take(&arena, j->n_readings * sizeof(Reading), &j->readings));
  CRIA_TRY(take(&arena, j->n_frames * sizeof(Frame), &j->frames));
  CRIA_TRY(take(&arena, uint64_t{v.n_words} * sizeof(uint32_t) * kKeptMasks, &j->bits));
  *json = j;
  return Status::kOk;
}

void say_problem(Status status, const Refusal& refusal, cria_json_problem* problem) {
  if (problem == nullptr) return;
  *problem = {};
  if (status != Status::kUnsupported && status != Status::kTextTooLong) return;
  problem->offset = refusal.offset;
  problem->reason = refusal.reason;
  const std::string_view keyword = part_of(refusal.keyword, 0, sizeof problem->keyword - 1);
  std::copy(keyword.begin(), keyword.end(), problem->keyword);
}

Walk walk_of(const cria_json& j) {
  return {&j.schema, j.readings, j.n_readings, j.frames, j.n_frames};
}

// The state's readings at the front of a walk.
Status resume(const cria_json& j, const cria_json_state& state, Walk* walk) {
  SavedReadings saved;
  std::memcpy(&saved, &state, sizeof saved);
  if (saved.schema != j.id ||
      !readings_hold(j.schema, saved.readings, saved.n_readings, saved.frames, saved.n_frames)) {
    return Status::kBadState;
  }
  walk->begin(saved.readings, saved.n_readings, saved.frames, saved.n_frames);
  return Status::kOk;
}

void keep(const cria_json& j, const Walk& walk, uint32_t n, cria_json_state* state) {
  SavedReadings saved = {};
  uint32_t n_readings = 0;
  uint32_t n_frames = 0;
  walk.save(n, saved.readings, &n_readings, saved.frames, &n_frames);
  saved.schema = j.id;
  saved.n_readings = static_cast<uint16_t>(n_readings);
  saved.n_frames = static_cast<uint16_t>(n_frames);
  *state = {};
  std::memcpy(state, &saved, sizeof saved);
}

void allow(uint32_t token, uint32_t* bits) {
  bits[token / kWordBits] |= uint32_t{1} << (token % kWordBits);
}

// So often, in steps of a walk, somebody is asked whether a mask is still wanted.
constexpr uint64_t kStepsPerLook = uint64_t{1} << 16;

// Where a mask is made.
class MaskMaker {
 public:
  MaskMaker(const cria_json& json, Walk* walk, uint32_t* bits)
      : json_(json), vocabulary_(*json.vocabulary), walk_(walk), bits_(bits) {}

  Status make();

 private:
  [[nodiscard]] bool is_unwanted();
  [[nodiscard]] bool is_known(uint32_t reading) const;
  bool walk_group(const TokenGroup& group);
  bool walk_pattern(const Reading& reading);
  bool allow_plain();

  const cria_json& json_;
  const cria_json_vocabulary& vocabulary_;
  Walk* walk_;
  uint32_t* bits_;
  uint64_t next_look_ = kStepsPerLook;
};

bool MaskMaker::is_unwanted() {
  if (walk_->n_steps() < next_look_) return false;
  next_look_ = walk_->n_steps() + kStepsPerLook;
  return json_.wants_stop != nullptr && json_.wants_stop(json_.stop_context) != 0;
}

// Tokens of a group along which the walk goes to their ends. False: nobody wants them any more.
bool MaskMaker::walk_group(const TokenGroup& group) {
  for (uint32_t byte = 0; byte < kFirstBytes; ++byte) {
    const uint32_t end = group.first[byte + 1];
    uint32_t i = group.first[byte];
    if (i == end || !walk_->step(0, static_cast<char>(static_cast<uint8_t>(byte)))) continue;
    uint32_t n_walked = 1;  // bytes of the token before that could come
    for (; i < end; ++i) {
      const TokenEntry& e = group.entries[i];
      const uint32_t n_shared = i == group.first[byte] ? 1 : e.n_shared;
      if (n_shared > n_walked) continue;
      if (is_unwanted()) return false;
      n_walked = n_shared;
      const char* const bytes = vocabulary_.text + e.offset;
      while (n_walked < e.n_bytes && walk_->step(n_walked, bytes[n_walked])) ++n_walked;
      if (n_walked == e.n_bytes) allow(e.token, bits_);
    }
  }
  return true;
}

// The same of plain tokens in one string of a pattern, where a step is hardly more than an AND.
bool MaskMaker::walk_pattern(const Reading& reading) {
  const cria_json_vocabulary& v = vocabulary_;
  const PatternPools& pools = json_.schema.pools;
  const Node& node = json_.schema.nodes[reading.node];
  const Pattern& pattern = json_.schema.patterns[node.pattern];
  PositionSet sets[kMostTokenBytes + 1];     // behind the first bytes; nothing inside a character
  PositionSet next[kMostTokenBytes + 1];     // what those that are there can be followed by
  uint8_t n_read[kMostTokenBytes + 1] = {};  // characters
  const auto followers = [&](const PositionSet& set, uint32_t n_characters) {
    return json_.schema.leads_on(node, pattern_followers(pools, pattern, set),
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
  return r.phase == Phase::kText && r.text == TextPhase::kPlain;
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
    most = std::max(most, plain_characters(json_.schema, walk_->readings(0)[i]));
  }
  if (most == kEndless) {
    for (uint32_t i = 0; i < v.n_words; ++i) bits_[i] |= v.plain_bits[i];
    return true;
  }
  const TokenEntry* const end = v.plain.entries + v.plain.first[kFirstBytes];
  for (const TokenEntry* e = v.plain.entries; most > 0 && e != end; ++e) {
    if (e->n_characters <= most) allow(e->token, bits_);
  }
  for (uint32_t i = 0; i < walk_->n_readings(0); ++i) {
    const Reading& r = walk_->readings(0)[i];
    const bool has_pattern = is_plain_text(r) && json_.schema.nodes[r.node].pattern != kNone;
    if (has_pattern && !is_known(i) && !walk_pattern(r)) return false;
  }
  walk_->keep_readings([](const Reading& r) { return !is_plain_text(r); });
  return walk_->n_readings(0) == 0 || walk_group(v.plain);
}

Status MaskMaker::make() {
  const format::ModelScalars& config = vocabulary_.model->scalars();
  std::fill(bits_, bits_ + vocabulary_.n_words, 0);
  for (uint32_t i = 0; i < config.n_end_tokens && walk_->may_end(0); ++i) {
    allow(config.end_tokens[i], bits_);
  }
  return walk_group(vocabulary_.others) && allow_plain() ? Status::kOk : Status::kCancelled;
}

// The mask of a state, kept from before or made now.
Status mask_of(cria_json* j, const cria_json_state& state, const uint32_t** mask) {
  Walk walk = walk_of(*j);
  CRIA_TRY(resume(*j, state, &walk));
  const uint64_t hash = xxh64(&state, sizeof state);
  const uint64_t key = hash != 0 ? hash : 1;
  ++j->n_masks;
  uint32_t oldest = 0;
  for (uint32_t i = 0; i < kKeptMasks; ++i) {
    KeptMask& kept = j->kept[i];
    if (kept.key == key) {
      kept.used = j->n_masks;
      *mask = j->bits + size_t{i} * j->vocabulary->n_words;
      return Status::kOk;
    }
    if (kept.used < j->kept[oldest].used) oldest = i;
  }
  uint32_t* const bits = j->bits + size_t{oldest} * j->vocabulary->n_words;
  j->kept[oldest] = {};
  CRIA_TRY(MaskMaker(*j, &walk, bits).make());
  if (std::all_of(bits, bits + j->vocabulary->n_words, [](uint32_t w) { return w == 0; })) {
    return Status::kBadState;
  }
  j->kept[oldest] = {key, j->n_masks};
  *mask = bits;
  return Status::kOk;
}

Status apply_mask(cria_json* j, const cria_json_state& state, float* logits) {
  const uint32_t* mask = nullptr;
  CRIA_TRY(mask_of(j, state, &mask));
  for (uint32_t i = 0; i < j->vocabulary->model->scalars().vocab_size; ++i) {
    const bool is_allowed = (mask[i / kWordBits] >> (i % kWordBits) & 1) != 0;
    // Not a number too is raised.
    const float raised = logits[i] > kLeastLogit ? logits[i] : kLeastLogit;
    logits[i] = is_allowed ? raised : -HUGE_VALF;
  }
  return Status::kOk;
}

Status accept(const cria_json& j, cria_json_state* state, uint32_t token) {
  Walk walk = walk_of(j);
  CRIA_TRY(resume(j, *state, &walk));
  if (cria_is_end_token(j.vocabulary->model, token) != 0) {
    return walk.may_end(0) ? Status::kOk : Status::kInvalidArgument;
  }
  char bytes[kMostTokenBytes];
  const uint32_t n_bytes = token_bytes(j.vocabulary->model->tokenizer, token, bytes);
  if (n_bytes == 0) return Status::kInvalidArgument;
  for (uint32_t i = 0; i < n_bytes; ++i) {
    if (!walk.step(i, bytes[i])) return Status::kInvalidArgument;
  }
  keep(j, walk, n_bytes, state);
  return Status::kOk;
}

cria_json_progress progress_of(const cria_json& j, const cria_json_state& state) {
  Walk walk = walk_of(j);
  if (resume(j, state, &walk) != Status::kOk || !walk.may_end(0)) return CRIA_JSON_OPEN;
  for (uint32_t byte = 0; byte < kFirstBytes; ++byte) {
    if (walk.step(0, static_cast<char>(static_cast<uint8_t>(byte)))) return CRIA_JSON_WHOLE;
  }
  return CRIA_JSON_CLOSED;
}

}  // namespace
}  // namespace cria::json

using cria::to_public;

extern "C" {

cria_status cria_json_required(const cria_json_vocabulary* vocabulary, const char* schema,
                               size_t n_schema, size_t* n_bytes, cria_json_problem* problem) {
  if (vocabulary == nullptr || n_bytes == nullptr || (schema == nullptr && n_schema != 0)) {
    return CRIA_INVALID_ARGUMENT;
  }
  uint64_t total = 0;
  cria::json::Refusal refusal = {};
  const cria::Status status =
      cria::json::need_bytes(*vocabulary, {schema, n_schema}, &total, &refusal);
  cria::json::say_problem(status, refusal, problem);
  if (status == cria::Status::kOk) *n_bytes = static_cast<size_t>(total);
  return to_public(status);
}

cria_status cria_json_make(void* memory, size_t n_bytes, const cria_json_vocabulary* vocabulary,
                           const char* schema, size_t n_schema, cria_json** json,
                           cria_json_problem* problem) {
  if (memory == nullptr || vocabulary == nullptr || json == nullptr ||
      (schema == nullptr && n_schema != 0)) {
    return CRIA_INVALID_ARGUMENT;
  }
  *json = nullptr;
  if (!cria::is_aligned(memory)) return CRIA_MISALIGNED;
  cria::json::Refusal refusal = {};
  const cria::Status status = cria::json::make_json(
      {static_cast<uint8_t*>(memory), n_bytes}, *vocabulary, {schema, n_schema}, json, &refusal);
  cria::json::say_problem(status, refusal, problem);
  return to_public(status);
}

cria_status cria_json_begin(const cria_json* json, cria_json_state* state) {
  if (json == nullptr || state == nullptr) return CRIA_INVALID_ARGUMENT;
  cria::json::Walk walk = cria::json::walk_of(*json);
  walk.begin_document();
  cria::json::keep(*json, walk, 0, state);
  return CRIA_OK;
}

cria_status cria_json_mask(cria_json* json, const cria_json_state* state, float* logits,
                           size_t n_logits) {
  if (json == nullptr || state == nullptr || logits == nullptr ||
      n_logits != json->vocabulary->model->scalars().vocab_size) {
    return CRIA_INVALID_ARGUMENT;
  }
  return to_public(cria::json::apply_mask(json, *state, logits));
}

void cria_json_watch(cria_json* json, cria_json_stop_fn wants_stop, void* context) {
  if (json == nullptr) return;
  json->wants_stop = wants_stop;
  json->stop_context = context;
}

cria_status cria_json_accept(cria_json* json, cria_json_state* state, uint32_t token) {
  if (json == nullptr || state == nullptr) return CRIA_INVALID_ARGUMENT;
  return to_public(cria::json::accept(*json, state, token));
}

cria_json_progress cria_json_progress_of(cria_json* json, const cria_json_state* state) {
  if (json == nullptr || state == nullptr) return CRIA_JSON_OPEN;
  return cria::json::progress_of(*json, *state);
}

}  // extern "C"
