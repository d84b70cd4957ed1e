// What cria.h asks of models, sessions and workspaces, but for steps and text.
#include <algorithm>

#include "runtime/base/features.h"
#include "runtime/decode/sampler.h"
#include "runtime/decode/session.h"
#include "runtime/decode/slots.h"
#include "runtime/decode/workspace.h"

extern "C" {

const char* cria_status_message(cria_status status) {
  switch (status) {
#define CRIA_STATUS_TEXT(name, value, text) \
  case name:                                \
    return text;
    CRIA_STATUS_LIST(CRIA_STATUS_TEXT)
#undef CRIA_STATUS_TEXT
  }
  return "unknown status";
}

const char* cria_version(void) { return "0.1.0"; }

uint32_t cria_built_isas(void) { return cria::built_isas(); }

const char* cria_instruction_set_name(uint32_t isa) {
  for (const cria::IsaEntry& entry : cria::kIsaList) {
    if (entry.bit == isa) return entry.name;
  }
  return "unknown";
}

size_t cria_model_bytes(const cria_model* model) { return model != nullptr ? model->n_bytes : 0; }

size_t cria_session_bytes(const cria_session* session) {
  return session != nullptr ? session->n_bytes : 0;
}

size_t cria_workspace_bytes(const cria_workspace* workspace) {
  return workspace != nullptr ? workspace->n_bytes : 0;
}

const char* cria_backend_name(const cria_model* model) {
  return model != nullptr ? model->backend->name : "";
}

uint64_t cria_fingerprint(const cria_model* model) {
  return model != nullptr ? model->index.fingerprint : 0;
}

const char* cria_isa_name(const cria_model* model) {
  return model != nullptr ? model->kernels.isa : "";
}

uint32_t cria_vocab_size(const cria_model* model) {
  return model != nullptr ? model->scalars().vocab_size : 0;
}

uint32_t cria_d_model(const cria_model* model) {
  return model != nullptr ? model->scalars().d_model : 0;
}

int cria_is_end_token(const cria_model* model, uint32_t token) {
  if (model == nullptr) return 0;
  const cria::format::ModelScalars& c = model->scalars();
  const uint32_t* end = c.end_tokens + c.n_end_tokens;
  return std::find(c.end_tokens, end, token) != end ? 1 : 0;
}

float* cria_logits(cria_session* session) {
  return session != nullptr && session->has_logits ? session->logits : nullptr;
}

cria_status cria_sample(cria_workspace* workspace, cria_session* session,
                        const cria_sampling* sampling, uint32_t* token) {
  if (workspace == nullptr || session == nullptr || sampling == nullptr || token == nullptr ||
      session->model != workspace->model ||
      !cria::is_valid_sampling(*sampling, workspace->model->scalars().vocab_size)) {
    return CRIA_INVALID_ARGUMENT;
  }
  if (!cria::kHasSampling && sampling->temperature != 0.0f) return CRIA_UNSUPPORTED;
  if (!workspace->can_run) return CRIA_NO_WEIGHTS;
  if (!session->has_logits) return CRIA_NOTHING_TO_SAMPLE;
  const size_t vocab_size = session->model->scalars().vocab_size;
  const size_t n_recent = std::min<size_t>(session->position, size_t{CRIA_PENALTY_TOKENS});
  auto* candidates = reinterpret_cast<cria::Candidate*>(workspace->scratch.data());
  *token = cria::sample({session->logits, vocab_size},
                        {session->history + session->position - n_recent, n_recent}, *sampling,
                        &session->random, {candidates, vocab_size});
  return CRIA_OK;
}

void cria_seed(cria_session* session, uint64_t seed) {
  if (session != nullptr) session->random = cria::Pcg32::seeded(seed);
}

uint32_t cria_position(const cria_session* session) {
  return session != nullptr ? session->position : 0;
}

uint32_t cria_context(const cria_session* session) {
  return session != nullptr ? session->context : 0;
}

const uint32_t* cria_tokens(const cria_session* session) {
  return session != nullptr ? session->history : nullptr;
}

cria_status cria_reset(cria_session* session, uint32_t position) {
  if (session == nullptr || position > session->position) return CRIA_INVALID_ARGUMENT;
  if (cria::kHasBlocks && session->states.n_slots != 0) {
    position = cria::last_followed(*session, position);
  }
  if (!cria::can_follow(*session, position)) return CRIA_FORGOTTEN;
  cria::cut(session, position);
  return CRIA_OK;
}

}  // extern "C"
