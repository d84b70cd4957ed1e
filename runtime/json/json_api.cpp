// The functions of cria_json.h: a schema with what it takes to walk a vocabulary through it.
#include <algorithm>

#include <cria_json.h>
#include "quant/format/align.h"
#include "quant/format/checksum.h"
#include "runtime/base/arena.h"
#include "runtime/json/masks.h"
#include "runtime/json/problem.h"

struct cria_json {
  cria::json::Masks masks;
};

namespace cria::json {
namespace {

Status need_bytes(const cria_json_vocabulary& v, std::string_view text, uint64_t* n_bytes,
                  Refusal* refusal) {
  uint64_t schema = 0;
  CRIA_TRY(schema_bytes(text, &schema, refusal));
  *n_bytes = aligned(sizeof(cria_json)) + schema + masks_bytes(v, v.longest);
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
  CRIA_TRY(
      compile_schema(text, {tables, static_cast<size_t>(schema_size)}, &j->masks.schema, refusal));
  j->masks.id = static_cast<uint32_t>(xxh64(text.data(), text.size()));
  CRIA_TRY(take_masks(v, v.longest, &arena, &j->masks));
  *json = j;
  return Status::kOk;
}

cria_json_progress progress_of(const Masks& masks, const uint64_t* state) {
  Walk walk = walk_of(masks);
  if (resume(masks, state, &walk) != Status::kOk || !walk.may_end(0)) return CRIA_JSON_OPEN;
  return can_go_on(&walk) ? CRIA_JSON_WHOLE : CRIA_JSON_CLOSED;
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
  cria::json::Walk walk = cria::json::walk_of(json->masks);
  walk.begin_document();
  cria::json::keep(json->masks, walk, 0, state->bytes);
  return CRIA_OK;
}

cria_status cria_json_mask(cria_json* json, const cria_json_state* state, float* logits,
                           size_t n_logits) {
  if (json == nullptr || state == nullptr || logits == nullptr ||
      n_logits != cria_vocab_size(json->masks.vocabulary->model)) {
    return CRIA_INVALID_ARGUMENT;
  }
  return to_public(cria::json::apply_mask(&json->masks, state->bytes, logits));
}

void cria_json_watch(cria_json* json, cria_json_stop_fn wants_stop, void* context) {
  if (json == nullptr) return;
  json->masks.wants_stop = wants_stop;
  json->masks.stop_context = context;
}

cria_status cria_json_accept(cria_json* json, cria_json_state* state, uint32_t token) {
  if (json == nullptr || state == nullptr) return CRIA_INVALID_ARGUMENT;
  return to_public(cria::json::accept_token(json->masks, state->bytes, token));
}

cria_json_progress cria_json_progress_of(cria_json* json, const cria_json_state* state) {
  if (json == nullptr || state == nullptr) return CRIA_JSON_OPEN;
  return cria::json::progress_of(json->masks, state->bytes);
}

}  // extern "C"
