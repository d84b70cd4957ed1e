// Steps that cannot be, and steps that are stopped: every session is as it was before, whatever was
// computed of it, and goes on with the bits that it would have got.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <iterator>

#include "tests/support/model_files.h"
#include "tests/support/test_sessions.h"

namespace cria {
namespace {

using test::MemorySource;
using test::state_of;
using test::TestSessions;

constexpr size_t kSessions = 4;
constexpr uint32_t kContext = 40;
constexpr uint32_t kTooMany = 4;  // tokens that there are, but no room for

// What each session has said before; the last one nothing yet.
constexpr size_t kSaid[kSessions] = {7, 12, kContext - 3, 0};

const MemorySource& source() {
  static const MemorySource source(
      test::convert_folder(test::golden_folder("odd-sizes"), {format::NumberFormat::kInt4, 32}));
  return source;
}

cria_config config_for(cria_backend backend) {
  cria_config config = {};
  config.backend = backend;
  config.context = kContext;
  config.prefill_chunk = 4;
  config.max_entries = 2;
  config.n_threads = 2;
  return config;
}

uint32_t token_at(size_t session, size_t position) {
  return static_cast<uint32_t>((position * 41 + session * 59 + 5) % 301);
}

// Sessions with a past, and the tokens that come next.
class Conversations {
 public:
  explicit Conversations(const cria_config& config) : sessions_(source(), config, kSessions) {
    EXPECT_EQ(sessions_.info().vocab_size, 301u);
    for (size_t i = 0; i < kSessions; ++i) {
      for (size_t position = 0; position < kContext + kTooMany; ++position) {
        tokens_[i].push_back(token_at(i, position));
      }
      if (kSaid[i] == 0) continue;
      EXPECT_EQ(cria_prefill(workspace(), session(i), tokens_[i].data(), kSaid[i]), CRIA_OK);
    }
    for (size_t i = 0; i < kSessions; ++i) before_[i] = state_of(session(i));
  }

  [[nodiscard]] cria_session* session(size_t i) { return sessions_.session(i); }
  [[nodiscard]] cria_workspace* workspace() { return sessions_.workspace(); }

  // What session i says next.
  [[nodiscard]] cria_batch_entry entry(size_t i, size_t n_tokens) {
    return {session(i), tokens_[i].data() + kSaid[i], n_tokens, nullptr, {}};
  }

  [[nodiscard]] cria_status step(const std::vector<cria_batch_entry>& entries) {
    return cria_step(workspace(), entries.data(), entries.size());
  }

  void expect_unchanged(const std::string& what) {
    for (size_t i = 0; i < kSessions; ++i) {
      EXPECT_EQ(cria_position(session(i)), kSaid[i]) << what << ", session " << i;
      EXPECT_EQ(cria_logits(session(i)) != nullptr, kSaid[i] != 0) << what << ", session " << i;
      EXPECT_TRUE(state_of(session(i)) == before_[i]) << what << ", session " << i;
    }
  }

 private:
  TestSessions sessions_;
  std::vector<uint32_t> tokens_[kSessions];
  std::vector<uint8_t> before_[kSessions];
};

// Turns of all sessions, of chunks that end in the middle of some.
std::vector<cria_batch_entry> good_entries(Conversations* c) {
  return {c->entry(1, 9), c->entry(0, 1), c->entry(3, 6), c->entry(2, 3)};
}

// The states that good_entries leave.
std::vector<std::vector<uint8_t>> good_states(cria_backend backend) {
  Conversations c(config_for(backend));
  EXPECT_EQ(c.step(good_entries(&c)), CRIA_OK);
  std::vector<std::vector<uint8_t>> states;
  for (size_t i = 0; i < kSessions; ++i) states.push_back(state_of(c.session(i)));
  return states;
}

class SessionErrors : public testing::TestWithParam<cria_backend> {};

TEST_P(SessionErrors, TurnsThatCannotBeAreRefusedAndChangeNothing) {
  const std::vector<std::vector<uint8_t>> states = good_states(GetParam());
  Conversations c(config_for(GetParam()));
  Conversations other(config_for(GetParam()));
  const uint32_t past_the_vocabulary[] = {1, 2, 301};
  const uint32_t far_past[] = {0xffffffff};
  const std::vector<cria_batch_entry> good = good_entries(&c);
  const auto with_last = [&](const cria_batch_entry& last) {
    std::vector<cria_batch_entry> entries = good;
    entries.back() = last;
    return entries;
  };
  const struct {
    const char* what;
    std::vector<cria_batch_entry> entries;
    cria_status expected;
  } wrong[] = {
      {"no entry", {}, CRIA_INVALID_ARGUMENT},
      {"a session twice", {c.entry(0, 1), c.entry(0, 1)}, CRIA_INVALID_ARGUMENT},
      {"a session twice, apart", with_last(c.entry(1, 1)), CRIA_INVALID_ARGUMENT},
      {"all sessions twice",
       {good[0], good[1], good[2], good[3], good[0], good[1], good[2], good[3]},
       CRIA_INVALID_ARGUMENT},
      {"a session of another model", with_last(other.entry(2, 1)), CRIA_INVALID_ARGUMENT},
      {"sessions of another model alone", good_entries(&other), CRIA_INVALID_ARGUMENT},
      {"a null session", with_last({nullptr, past_the_vocabulary, 1, nullptr, {}}),
       CRIA_INVALID_ARGUMENT},
      {"null tokens", with_last({c.session(2), nullptr, 1, nullptr, {}}), CRIA_INVALID_ARGUMENT},
      {"no tokens", with_last(c.entry(2, 0)), CRIA_INVALID_ARGUMENT},
      {"a token past the vocabulary",
       with_last({c.session(2), past_the_vocabulary, 3, nullptr, {}}), CRIA_INVALID_ARGUMENT},
      {"a token far past it", with_last({c.session(2), far_past, 1, nullptr, {}}),
       CRIA_INVALID_ARGUMENT},
      {"a context that is full", with_last(c.entry(2, 4)), CRIA_CONTEXT_FULL},
      {"a context that is full, first",
       {c.entry(3, kContext + 1), good[0], good[1], good[3]},
       CRIA_CONTEXT_FULL},
  };
  for (const auto& w : wrong) {
    EXPECT_EQ(c.step(w.entries), w.expected) << w.what;
    c.expect_unchanged(w.what);
    other.expect_unchanged(w.what);
  }
  EXPECT_EQ(cria_step(nullptr, good.data(), good.size()), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_step(c.workspace(), nullptr, good.size()), CRIA_INVALID_ARGUMENT);
  c.expect_unchanged("null");
  // No session is still marked as one that was seen, and each goes on.
  ASSERT_EQ(c.step(good), CRIA_OK);
  for (size_t i = 0; i < kSessions; ++i) EXPECT_TRUE(state_of(c.session(i)) == states[i]) << i;
}

// Stops at its call number stop_at, from 0.
struct Stopper {
  size_t stop_at = SIZE_MAX;
  size_t n_calls = 0;
  uint64_t last_done = 0;
  uint64_t last_total = 0;
  bool is_ordered = true;  // what is done grows, up to the total, which stays

  static int hook(void* context, uint64_t done, uint64_t total) {
    auto* s = static_cast<Stopper*>(context);
    if (s->n_calls == 0) s->last_total = total;
    const bool grows = done > s->last_done && done <= total;
    s->is_ordered = s->is_ordered && grows && total == s->last_total;
    s->last_done = done;
    return s->n_calls++ == s->stop_at ? 7 : 0;
  }
  void arm(size_t at) { *this = {at, 0, 0, 0, true}; }
};

TEST_P(SessionErrors, AStepThatIsCancelledChangesNothing) {
  const std::vector<std::vector<uint8_t>> states = good_states(GetParam());
  Stopper stopper;
  cria_config config = config_for(GetParam());
  config.step_progress = Stopper::hook;
  config.progress_context = &stopper;
  Conversations c(config);
  {
    Conversations whole(config);
    stopper.arm(SIZE_MAX);
    ASSERT_EQ(whole.step(good_entries(&whole)), CRIA_OK);
  }
  // 19 tokens in chunks of at most 4 rows, through 2 layers.
  const size_t n_calls = stopper.n_calls;
  EXPECT_GE(n_calls, 2u * 5);
  EXPECT_EQ(n_calls % 2, 0u);
  EXPECT_TRUE(stopper.is_ordered);
  EXPECT_EQ(stopper.last_done, stopper.last_total) << "the last call says that all is done";
  for (size_t at = 0; at < n_calls; ++at) {
    stopper.arm(at);
    EXPECT_EQ(c.step(good_entries(&c)), CRIA_CANCELLED) << at;
    EXPECT_EQ(stopper.n_calls, at + 1) << "nobody is asked again";
    c.expect_unchanged("cancelled at " + std::to_string(at));
  }
  stopper.arm(SIZE_MAX);
  ASSERT_EQ(c.step(good_entries(&c)), CRIA_OK);
  for (size_t i = 0; i < kSessions; ++i) EXPECT_TRUE(state_of(c.session(i)) == states[i]) << i;
}

TEST_P(SessionErrors, AStepOfOneSessionThatIsCancelledChangesNothing) {
  Stopper stopper;
  cria_config config = config_for(GetParam());
  config.step_progress = Stopper::hook;
  config.progress_context = &stopper;
  Conversations c(config);
  for (const bool wants_all : {false, true}) {
    // 9 tokens in chunks of 4 rows, through 2 layers.
    for (size_t at = 0; at < 6; ++at) {
      std::vector<float> logits(9 * 301);
      cria_batch_entry entry = c.entry(1, 9);
      entry.all_logits = wants_all ? logits.data() : nullptr;
      stopper.arm(at);
      EXPECT_EQ(c.step({entry}), CRIA_CANCELLED) << at;
      c.expect_unchanged("cancelled at " + std::to_string(at));
    }
  }
}

// A model is not there until all of it is.
TEST_P(SessionErrors, LoadingThatIsCancelledGivesNoModel) {
  Stopper stopper;
  cria_config config = config_for(GetParam());
  config.n_threads = 1;
  config.load_progress = Stopper::hook;
  config.progress_context = &stopper;
  const cria_memory_plan plan = test::planned(test::inspected(source().source()), config);
  test::AlignedMemory memory(plan.model.total);
  test::AlignedMemory scratch(plan.loading);
  cria_model* model = nullptr;
  const auto load = [&] {
    return cria_load(memory.data(), memory.size(), scratch.data(), scratch.size(),
                     &source().source(), &config, &model);
  };
  ASSERT_EQ(load(), CRIA_OK);
  const size_t n_calls = stopper.n_calls;
  EXPECT_GT(n_calls, 1u);
  EXPECT_TRUE(stopper.is_ordered);
  for (size_t at = 0; at < n_calls; ++at) {
    stopper.arm(at);
    EXPECT_EQ(load(), CRIA_CANCELLED) << at;
    EXPECT_EQ(model, nullptr);
    EXPECT_EQ(stopper.n_calls, at + 1);
  }
  stopper.arm(SIZE_MAX);
  EXPECT_EQ(load(), CRIA_OK);
}

// Whoever shows what is done sees it end, whatever the backend does with the weights.
TEST_P(SessionErrors, LoadingEndsWhereItsProgressSays) {
  for (const uint32_t n_threads : {1u, 2u}) {
    Stopper stopper;
    cria_config config = config_for(GetParam());
    config.n_threads = n_threads;
    config.load_progress = Stopper::hook;
    config.progress_context = &stopper;
    const test::TestSession session(source(), config);
    EXPECT_TRUE(stopper.is_ordered);
    EXPECT_GT(stopper.n_calls, 1u);
    EXPECT_EQ(stopper.last_done, stopper.last_total) << n_threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, SessionErrors, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

TEST(Verify, IsCancelledByItsProgress) {
  Stopper stopper;
  test::AlignedMemory scratch(CRIA_VERIFY_SCRATCH_BYTES);
  const auto verify = [&] {
    return cria_verify(&source().source(), scratch.data(), scratch.size(), Stopper::hook, &stopper,
                       nullptr);
  };
  stopper.arm(SIZE_MAX);
  ASSERT_EQ(verify(), CRIA_OK);
  const size_t n_calls = stopper.n_calls;
  EXPECT_GT(n_calls, 1u);
  EXPECT_TRUE(stopper.is_ordered);
  for (size_t at = 0; at < n_calls; ++at) {
    stopper.arm(at);
    EXPECT_EQ(verify(), CRIA_CANCELLED) << at;
    EXPECT_EQ(stopper.n_calls, at + 1);
  }
}

}  // namespace
}  // namespace cria
