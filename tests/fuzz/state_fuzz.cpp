// Hostile saved states: what is not refused is what a session can go on from and save again.
//
//   base u8, kind u8: bit 0 and, when it is 0, bit 3 the KV format, bit 1 leaves the checksum as it
//   is, bit 2 takes the rest for a whole state; else edits (tests/fuzz/model_draft.h) of a state
//   that was saved
#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "tests/fuzz/base_models.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/noted_models.h"
#include "tests/support/sampling_of.h"
#include "tests/support/sealed.h"
#include "tests/support/test_session.h"

namespace cria::fuzz {
namespace {

constexpr size_t kKvFormats = 3;
constexpr size_t kHeaderBytes = 48;  // runtime/decode/state.cpp

// A session and a state of its.
class SavedSession {
 public:
  SavedSession(const Bytes& model, cria_kv_format kv_format)
      : source_(model), session_(source_, config(kv_format)) {
    constexpr uint32_t kTokens[] = {1, 2, 3, 4, 5};
    cria_session* const s = session_.session();
    expect(cria_prefill(session_.workspace(), s, kTokens, std::size(kTokens)) == CRIA_OK,
           "a good model runs");
    state_.resize(cria_state_size(s));
    expect(cria_state_save(s, state_.data(), state_.size()) == CRIA_OK, "a state can be saved");
  }
  [[nodiscard]] cria_instance instance() { return session_.instance(); }
  [[nodiscard]] const Bytes& state() const { return state_; }

 private:
  static cria_config config(cria_kv_format kv_format) {
    cria_config config = {};
    config.kv_format = kv_format;
    config.backend = CRIA_BACKEND_EXACT;
    return config;
  }

  test::MemorySource source_;
  test::TestSession session_;
  Bytes state_;
};

SavedSession* session_for(uint8_t base, cria_kv_format kv_format) {
  static std::vector<std::unique_ptr<SavedSession>> sessions(base_models().size() * kKvFormats);
  const size_t model = base % base_models().size();
  std::unique_ptr<SavedSession>& session = sessions[model * kKvFormats + kv_format];
  if (!session) session = std::make_unique<SavedSession>(base_models()[model], kv_format);
  return session.get();
}

void mend(Bytes* state) {
  if (state->size() >= kHeaderBytes) test::seal(state, test::kStateChecksum, state->size());
}

}  // namespace

int fuzz_one(const uint8_t* data, size_t size) {
  constexpr size_t kMostEdits = 32;
  constexpr uint8_t kOtherKv = 1 << 0;
  constexpr uint8_t kKeepsChecksum = 1 << 1;
  constexpr uint8_t kWhole = 1 << 2;
  constexpr uint8_t kValuesIn4Bits = 1 << 3;
  ByteFeed feed(data, size);
  const uint8_t base = feed.byte();
  const uint8_t kind = feed.byte();
  const cria_kv_format kv_format = (kind & kOtherKv) != 0         ? CRIA_KV_F32
                                   : (kind & kValuesIn4Bits) != 0 ? CRIA_KV_K8V4
                                                                  : CRIA_KV_INT8;
  SavedSession* const saved = session_for(base, kv_format);
  const cria_instance cria = saved->instance();
  cria_session* const s = cria.session;
  Bytes state = saved->state();
  if ((kind & kWhole) != 0) {
    state.assign(feed.rest().begin(), feed.rest().end());
  } else {
    for (size_t i = 0; i < kMostEdits && !feed.is_empty(); ++i)
      apply_edit(take_edit(&feed), &state);
  }
  if ((kind & kKeepsChecksum) == 0) mend(&state);
  // At a place of exactly these bytes, on no boundary.
  const auto copy = std::make_unique<uint8_t[]>(state.size() + 1);
  std::copy(state.begin(), state.end(), copy.get() + 1);

  expect(cria_reset(s, 0) == CRIA_OK, "a session can be reset");
  const cria_status status = cria_state_load(s, copy.get() + 1, state.size());
  const bool is_first = base % base_models().size() == 0 && kv_format == CRIA_KV_INT8;
  if (is_first) note_state(state, status);
  if (status != CRIA_OK) {
    expect(status == CRIA_BAD_STATE || status == CRIA_CONTEXT_FULL,
           "cria_state_load gives a status that its header names");
    expect(cria_position(s) == 0 && cria_logits(s) == nullptr,
           "a state that is refused leaves the session as it was");
    return 0;
  }
  Bytes again(cria_state_size(s));
  expect(again.size() == state.size() &&
             cria_state_save(s, again.data(), again.size()) == CRIA_OK && again == state,
         "a loaded state is the saved one");
  const cria_sampling sampling = test::sampling_of(0.8f, 0.9f, 0.05f, 1.5f, 20);
  uint32_t token = 0;
  if (cria_logits(s) != nullptr) {
    expect(cria_sample(cria.workspace, s, &sampling, &token) == CRIA_OK &&
               token < cria_vocab_size(cria.model),
           "what has logits can be sampled");
  }
  if (cria_position(s) < cria_context(s)) {
    expect(cria_prefill(cria.workspace, s, &token, 1) == CRIA_OK, "a session goes on from a state");
  }
  return 0;
}

}  // namespace cria::fuzz
