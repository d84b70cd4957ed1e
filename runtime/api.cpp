// The rest of cria.h: thin functions over tokenizer, decoder and sampler.
#include <algorithm>

#include <cria.h>
#include "quant/tile16.h"
#include "runtime/base/features.h"
#include "runtime/decode/decoder.h"
#include "runtime/decode/sampler.h"
#include "runtime/decode/session.h"

namespace cria {
namespace {

cria_status to_public(Status status) { return static_cast<cria_status>(status); }

constexpr size_t kWorkspaceAlignment = 8;

// The step memory, as workspace of the tokenizer.
std::span<uint8_t> workspace(const cria_session& s) {
  return {s.step, static_cast<size_t>(s.plan.encoding)};
}

Status check_tokens(const cria_session& s, std::span<const uint32_t> tokens) {
  if (tokens.empty()) return Status::kInvalidArgument;
  for (const uint32_t token : tokens) {
    if (token >= s.model.config.vocab_size) return Status::kInvalidArgument;
  }
  const size_t room = s.plan_input.context - s.position;
  return tokens.size() <= room ? Status::kOk : Status::kContextFull;
}

Status prefill(cria_session* s, std::span<const uint32_t> tokens, float* all_logits) {
  CRIA_TRY(check_tokens(*s, tokens));
  const uint32_t before = s->position;
  const size_t vocab_size = s->model.config.vocab_size;
  const size_t chunk = s->plan_input.prefill_chunk;
  Status status = Status::kOk;
  for (size_t done = 0; done < tokens.size() && status == Status::kOk;) {
    const size_t n = std::min(chunk, tokens.size() - done);
    const bool is_last = done + n == tokens.size();
    if (all_logits != nullptr) {
      status = forward(s, tokens.subspan(done, n), LogitRows::kAll, all_logits + done * vocab_size);
    } else {
      status = forward(s, tokens.subspan(done, n), LogitRows::kLast, is_last ? s->logits : nullptr);
    }
    done += n;
  }
  if (status != Status::kOk) {
    s->position = before;
    s->has_logits = false;
    return status;
  }
  if (all_logits != nullptr) {
    const float* last = all_logits + (tokens.size() - 1) * vocab_size;
    std::copy(last, last + vocab_size, s->logits);
  }
  s->has_logits = true;
  return Status::kOk;
}

Status decode_token(const cria_session& s, cria_text_state* state, uint32_t token, char* text,
                    size_t capacity, size_t* n_bytes) {
  constexpr size_t kSlackBytes = 8;
  DecodeState decode = {};
  std::copy(state->pending, state->pending + sizeof decode.pending, decode.pending);
  decode.n_pending = state->n_pending;
  decode.started = state->started;
  // The state is the caller's memory: it might not be ours.
  if (decode.n_pending > sizeof decode.pending || state->reserved != 0) {
    return Status::kInvalidArgument;
  }
  if (token == format::kNone) {
    if (capacity < kSlackBytes) return Status::kBufferTooSmall;
    *n_bytes = tokenizer_decode_end(&decode, {text, capacity});
  } else {
    if (token >= s.model.config.vocab_size) return Status::kInvalidArgument;
    if (capacity < size_t{s.tokenizer.header.longest_token} * 3 + kSlackBytes) {
      return Status::kBufferTooSmall;
    }
    *n_bytes =
        tokenizer_decode(s.tokenizer, token, state->show_special != 0, &decode, {text, capacity});
  }
  std::copy(decode.pending, decode.pending + sizeof decode.pending, state->pending);
  state->n_pending = decode.n_pending;
  state->started = decode.started;
  return Status::kOk;
}

Status encode_chat(const cria_session& s, std::span<const cria_message> messages, size_t first,
                   bool open_turn, std::span<uint32_t> tokens, size_t* n_tokens) {
  // The converted messages take the front of the workspace: the stack may be small.
  const std::span<uint8_t> memory = workspace(s);
  if (messages.size() > memory.size() / (2 * sizeof(ChatMessage))) return Status::kTextTooLong;
  auto* converted = reinterpret_cast<ChatMessage*>(memory.data());
  for (size_t i = 0; i < messages.size(); ++i) {
    const cria_message& m = messages[i];
    if (static_cast<uint32_t>(m.role) > static_cast<uint32_t>(ChatRole::kAssistant) ||
        (m.text == nullptr && m.n_bytes != 0)) {
      return Status::kInvalidArgument;
    }
    converted[i] = {static_cast<ChatRole>(m.role), {m.text, m.n_bytes}};
  }
  return chat_encode(
      s.tokenizer, s.chat_template, {converted, messages.size()}, first, open_turn,
      memory.subspan(round_up(messages.size() * sizeof(ChatMessage), kWorkspaceAlignment)), tokens,
      n_tokens);
}

}  // namespace
}  // namespace cria

using cria::to_public;

extern "C" {

const char* cria_status_message(cria_status status) {
  switch (status) {
#define CRIA_STATUS_TEXT(cpp_name, c_name, value, text) \
  case c_name:                                          \
    return text;
    CRIA_STATUS_LIST(CRIA_STATUS_TEXT)
#undef CRIA_STATUS_TEXT
  }
  return "unknown status";
}

const char* cria_version(void) { return "0.1.0"; }

size_t cria_memory_used(const cria_session* session) {
  return session != nullptr ? session->arena.used() : 0;
}

const char* cria_backend_name(const cria_session* session) {
  return session != nullptr ? session->backend->name : "";
}

uint32_t cria_built_isas(void) { return cria::built_isas(); }

const char* cria_isa_name(const cria_session* session) {
  return session != nullptr ? session->kernels->isa : "";
}

cria_status cria_encode(cria_session* session, const char* text, size_t n_bytes, uint32_t flags,
                        uint32_t* tokens, size_t capacity, size_t* n_tokens) {
  constexpr uint32_t kKnown = CRIA_ENCODE_SPECIAL | CRIA_ENCODE_PARSE | CRIA_ENCODE_CONTINUES;
  if (session == nullptr || (text == nullptr && n_bytes != 0) || n_tokens == nullptr ||
      (tokens == nullptr && capacity != 0) || (flags & ~kKnown) != 0) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!session->has_tokenizer) return CRIA_NO_TOKENIZER;
  const cria::EncodeOptions options = {(flags & CRIA_ENCODE_SPECIAL) != 0,
                                       (flags & CRIA_ENCODE_PARSE) != 0,
                                       (flags & CRIA_ENCODE_CONTINUES) != 0};
  return to_public(cria::tokenizer_encode(session->tokenizer, {text, n_bytes}, options,
                                          cria::workspace(*session), {tokens, capacity}, n_tokens));
}

cria_status cria_decode_token(cria_session* session, cria_text_state* state, uint32_t token,
                              char* text, size_t capacity, size_t* n_bytes) {
  if (session == nullptr || state == nullptr || text == nullptr || n_bytes == nullptr) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!session->has_tokenizer) return CRIA_NO_TOKENIZER;
  return to_public(cria::decode_token(*session, state, token, text, capacity, n_bytes));
}

cria_status cria_encode_chat(cria_session* session, const cria_message* messages, size_t n_messages,
                             size_t first, int open_turn, uint32_t* tokens, size_t capacity,
                             size_t* n_tokens) {
  if (session == nullptr || messages == nullptr || n_tokens == nullptr || first > n_messages ||
      (tokens == nullptr && capacity != 0)) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!session->has_tokenizer) return CRIA_NO_TOKENIZER;
  if (!session->has_chat_template) return CRIA_NO_CHAT_TEMPLATE;
  return to_public(cria::encode_chat(*session, {messages, n_messages}, first, open_turn != 0,
                                     {tokens, capacity}, n_tokens));
}

cria_status cria_prefill(cria_session* session, const uint32_t* tokens, size_t n_tokens) {
  if (session == nullptr || tokens == nullptr) return CRIA_INVALID_ARGUMENT;
  return to_public(cria::prefill(session, {tokens, n_tokens}, nullptr));
}

cria_status cria_prefill_logits(cria_session* session, const uint32_t* tokens, size_t n_tokens,
                                float* all_logits) {
  if (session == nullptr || tokens == nullptr || all_logits == nullptr) {
    return CRIA_INVALID_ARGUMENT;
  }
  return to_public(cria::prefill(session, {tokens, n_tokens}, all_logits));
}

const float* cria_logits(const cria_session* session) {
  return session != nullptr && session->has_logits ? session->logits : nullptr;
}

cria_status cria_sample(cria_session* session, const cria_sampling* sampling, uint32_t* token) {
  if (session == nullptr || sampling == nullptr || token == nullptr ||
      !cria::is_valid_sampling(*sampling)) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!cria::kHasSampling && sampling->temperature != 0.0f) return CRIA_UNSUPPORTED;
  if (!session->has_logits) return CRIA_NOTHING_TO_SAMPLE;
  const size_t vocab_size = session->model.config.vocab_size;
  const size_t n_recent = std::min<size_t>(session->position, cria::kRepeatWindow);
  *token = cria::sample(
      {session->logits, vocab_size}, {session->history + session->position - n_recent, n_recent},
      *sampling, &session->random, {reinterpret_cast<cria::Candidate*>(session->step), vocab_size});
  return CRIA_OK;
}

void cria_seed(cria_session* session, uint64_t seed) {
  if (session != nullptr) session->random = cria::Pcg32::seeded(seed);
}

int cria_is_end_token(const cria_session* session, uint32_t token) {
  if (session == nullptr) return 0;
  const cria::format::ModelConfig& c = session->model.config;
  const uint32_t* end = c.end_tokens + c.n_end_tokens;
  return std::find(c.end_tokens, end, token) != end ? 1 : 0;
}

uint32_t cria_position(const cria_session* session) {
  return session != nullptr ? session->position : 0;
}

uint32_t cria_context(const cria_session* session) {
  return session != nullptr ? session->plan_input.context : 0;
}

uint32_t cria_vocab_size(const cria_session* session) {
  return session != nullptr ? session->model.config.vocab_size : 0;
}

cria_status cria_reset(cria_session* session, uint32_t position) {
  if (session == nullptr || position > session->position) return CRIA_INVALID_ARGUMENT;
  session->position = position;
  session->has_logits = false;
  return CRIA_OK;
}

}  // extern "C"
