// Positions that become others: cria_copy_prefix, cria_drop, cria_reset, and states that are loaded
// where the ring is another.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/support/isa_list.h"
#include "tests/support/matrix_formats.h"
#include "tests/support/max_or_nan.h"
#include "tests/support/model_builder.h"
#include "tests/support/some_tokens.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"
#include "tests/support/test_sessions.h"

namespace cria {
namespace {

using format::NumberFormat;
using test::MemorySource;
using test::TestSessions;

constexpr uint32_t kSeed = 5;
constexpr uint32_t kVocab = 50;

enum class Kind { kLlama, kNearLlama, kLatent, kSharing };

// All that keys may be other than Llama's: normalized, turned in part, by frequencies for long
// contexts, and in every third layer not at all.
void go_near_llama(ConfigParts* c) {
  test::set_head_dim(c, 24);
  c->model.rope_tables[0] = {9, 1.25f, 128, 0};
  format::LayerKind turned = c->kinds[0];
  turned.flags |= format::flag::kHeadNorms | format::flag::kMixerBias;
  turned.score_multiplier = 2e3f;
  format::LayerKind standing = turned;
  standing.rope_table = format::kNoTable;
  std::vector<format::LayerKind> layers;
  for (size_t i = 0; i < c->layers.size(); ++i) layers.push_back(i % 3 == 1 ? standing : turned);
  c->set_layers(layers);
}

// Rows that all heads share, and a key beside them that is turned.
void go_latent(ConfigParts* c) {
  format::LayerKind latent =
      test::small_kind(format::Mixer::kLatentAttention, format::FeedForward::kDense);
  latent.flags |= format::flag::kGated;
  latent.latent_rank = 42;
  latent.key_dim = 20;
  latent.shared_key_dim = 8;
  latent.rope_table = 0;
  latent.window = c->kinds[0].window;
  latent.score_multiplier = 1e5f;
  c->model.rope_tables[0] = {4, 1.25f, 0, 0};
  c->model.residual_multiplier = 1000.0f;
  c->kinds[0] = latent;
}

// Per-layer embeddings, norms of values, and a layer more that reads the last one's keys and
// values.
void go_sharing(ConfigParts* c) {
  test::set_head_dim(c, 24);
  c->model.per_layer_width = 20;
  c->model.per_layer_table_multiplier = 4.0f;
  c->model.per_layer_input_multiplier = 0.25f;
  c->model.per_layer_sum_multiplier = 0.75f;
  format::LayerKind& own = c->kinds[0];
  own.flags |= format::flag::kHeadNorms | format::flag::kMixerOutNorm | format::flag::kFfnOutNorm |
               format::flag::kPerLayerInput;
  own.score_multiplier = 2e3f;
  format::LayerKind sharing = own;
  own.flags |= format::flag::kValueNorm;
  sharing.shared_with = 0;
  c->kinds.push_back(sharing);
  c->layers.push_back(1);
}

MemorySource model_of(Kind kind, uint32_t n_layers, uint32_t window) {
  ConfigParts c = test::small_config(NumberFormat::kInt4, 32);
  c.layers.assign(n_layers, 0);
  c.kinds[0].window = window;
  c.model.max_context = 1024;
  c.model.planned_context = 256;
  if (kind == Kind::kNearLlama) go_near_llama(&c);
  if (kind == Kind::kLatent) go_latent(&c);
  if (kind == Kind::kSharing) go_sharing(&c);
  test::set_all_formats(&c, {NumberFormat::kInt4, 32});
  return MemorySource(test::build_model(c.view(), kSeed));
}

std::vector<uint32_t> some_tokens(size_t n, uint32_t salt) {
  return test::some_tokens(n, kVocab, salt);
}

struct Variant {
  std::string name;
  Kind kind;
  cria_backend backend;
  cria_kv_format kv_format;
};
std::vector<Variant> variants() {
  std::vector<Variant> all;
  constexpr const char* kNames[] = {"", "NearLlama", "Latent", "Sharing"};
  for (const Kind kind : {Kind::kLlama, Kind::kNearLlama, Kind::kLatent, Kind::kSharing}) {
    for (const cria_backend backend : test::built_backends()) {
      const std::string name = std::string(backend == CRIA_BACKEND_EXACT ? "exact" : "xnnpack") +
                               kNames[static_cast<size_t>(kind)];
      all.push_back({name, kind, backend, CRIA_KV_INT8});
      if (kind == Kind::kSharing) continue;  // whose rows are those of others
      all.push_back({name + "F32", kind, backend, CRIA_KV_F32});
      all.push_back({name + "K8V4", kind, backend, CRIA_KV_K8V4});
    }
  }
  return all;
}

class SessionMoves : public testing::TestWithParam<Variant> {
 protected:
  static cria_config config() {
    cria_config config = {};
    config.backend = GetParam().backend;
    config.kv_format = GetParam().kv_format;
    config.prefill_chunk = 7;
    config.max_entries = 1;
    return config;
  }
};

void read(TestSessions* sessions, size_t i, const std::vector<uint32_t>& tokens, size_t begin,
          size_t end) {
  ASSERT_EQ(
      cria_prefill(sessions->workspace(), sessions->session(i), tokens.data() + begin, end - begin),
      CRIA_OK);
}

// How far session 0's logits are from session 1's, of the largest of these.
double relative_error(TestSessions* sessions) {
  return test::relative_error(cria_logits(sessions->session(0)), cria_logits(sessions->session(1)),
                              kVocab);
}

TEST(RelativeError, OfWhatIsNoNumberIsWithinNoLimit) {
  const float want[] = {1, -4, 2};
  for (size_t i = 0; i < 3; ++i) {
    float got[] = {1, -4, 2};
    EXPECT_EQ(test::relative_error(got, want, 3), 0);
    got[i] += 1;
    EXPECT_EQ(test::relative_error(got, want, 3), 0.25);
    for (const float value : {std::nanf(""), INFINITY}) {
      got[i] = value;
      EXPECT_FALSE(test::relative_error(got, want, 3) <= 1e9) << i;
      EXPECT_FALSE(test::relative_error(want, got, 3) <= 1e9) << i;
    }
  }
}

TEST_P(SessionMoves, APrefixThatIsCopiedIsOneThatWasRead) {
  const MemorySource source = model_of(GetParam().kind, 2, 0);
  TestSessions sessions(source, config(), 3);
  const std::vector<uint32_t> tokens = some_tokens(90, 1);
  for (const uint32_t n : {1u, 6u, 7u, 63u, 64u, 80u}) {
    for (size_t i = 0; i < 3; ++i) ASSERT_EQ(cria_reset(sessions.session(i), 0), CRIA_OK);
    read(&sessions, 0, tokens, 0, 80);
    read(&sessions, 1, some_tokens(100, 9), 0, 100);  // something to forget
    ASSERT_EQ(cria_copy_prefix(sessions.session(1), sessions.session(0), n), CRIA_OK);
    EXPECT_EQ(cria_position(sessions.session(1)), n);
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.begin() + n, cria_tokens(sessions.session(1))));
    EXPECT_EQ(cria_logits(sessions.session(1)) != nullptr, n == 80);
    if (n == 80) {
      EXPECT_TRUE(test::state_of(sessions.session(1)) == test::state_of(sessions.session(0)));
    }
    read(&sessions, 1, tokens, n, 90);
    read(&sessions, 2, tokens, 0, 90);
    EXPECT_TRUE(test::state_of(sessions.session(1)) == test::state_of(sessions.session(2))) << n;
  }
}

TEST_P(SessionMoves, APrefixThatIsSavedIsOneThatWasRead) {
  const MemorySource source = model_of(GetParam().kind, 2, 0);
  TestSessions sessions(source, config(), 3);
  const std::vector<uint32_t> tokens = some_tokens(90, 1);
  read(&sessions, 0, tokens, 0, 80);
  cria_session* const s = sessions.session(0);
  const std::vector<uint8_t> before = test::state_of(s);
  for (const uint32_t n : {0u, 1u, 7u, 63u, 64u, 80u}) {
    std::vector<uint8_t> state(cria_state_prefix_size(s, n));
    EXPECT_EQ(cria_state_prefix_save(s, n, state.data(), state.size() - 1), CRIA_BUFFER_TOO_SMALL);
    ASSERT_EQ(cria_state_prefix_save(s, n, state.data(), state.size()), CRIA_OK);
    EXPECT_TRUE(test::state_of(s) == before);
    for (size_t i = 1; i < 3; ++i) ASSERT_EQ(cria_reset(sessions.session(i), 0), CRIA_OK);
    read(&sessions, 1, some_tokens(90, 9), 0, 90);  // something to forget
    ASSERT_EQ(cria_state_load(sessions.session(1), state.data(), state.size()), CRIA_OK) << n;
    EXPECT_EQ(cria_position(sessions.session(1)), n);
    EXPECT_EQ(cria_logits(sessions.session(1)) != nullptr, n == 80);
    read(&sessions, 1, tokens, n, 90);
    read(&sessions, 2, tokens, 0, 90);
    EXPECT_TRUE(test::state_of(sessions.session(1)) == test::state_of(sessions.session(2))) << n;
  }
  std::vector<uint8_t> state(before.size());
  EXPECT_EQ(cria_state_prefix_size(s, 81), 0u);
  EXPECT_EQ(cria_state_prefix_save(s, 81, state.data(), state.size()), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_state_prefix_save(nullptr, 0, state.data(), state.size()), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_state_prefix_save(s, 1, nullptr, 0), CRIA_INVALID_ARGUMENT);
}

// As cria.h says: whoever masks them and copies or saves the session then copies the mask.
TEST_P(SessionMoves, LogitsAreCopiedAndSavedAsTheyAre) {
  const MemorySource source = model_of(GetParam().kind, 2, 0);
  TestSessions sessions(source, config(), 2);
  const std::vector<uint32_t> tokens = some_tokens(20, 1);
  for (size_t i = 0; i < 2; ++i) read(&sessions, i, tokens, 0, 20);
  cria_logits(sessions.session(0))[3] = -INFINITY;
  const std::vector<uint8_t> masked = test::state_of(sessions.session(0));
  EXPECT_FALSE(masked == test::state_of(sessions.session(1)));
  ASSERT_EQ(cria_copy_prefix(sessions.session(1), sessions.session(0), 20), CRIA_OK);
  EXPECT_TRUE(masked == test::state_of(sessions.session(1)));
  EXPECT_EQ(cria_logits(sessions.session(1))[3], -INFINITY);
  // The next step's are the model's again.
  ASSERT_EQ(cria_state_load(sessions.session(1), masked.data(), masked.size()), CRIA_OK);
  ASSERT_EQ(cria_reset(sessions.session(0), 19), CRIA_OK);
  ASSERT_EQ(cria_reset(sessions.session(1), 19), CRIA_OK);
  for (size_t i = 0; i < 2; ++i) read(&sessions, i, tokens, 19, 20);
  EXPECT_TRUE(std::isfinite(cria_logits(sessions.session(1))[3]));
}

TEST_P(SessionMoves, NothingIsCopiedThatIsNotThereOrDoesNotFit) {
  const MemorySource source = model_of(GetParam().kind, 2, 0);
  TestSessions sessions(source, config(), 2);
  cria_config request = config();
  request.context = 16;
  const bool is_other_kind = GetParam().kind == Kind::kNearLlama;  // of RoPE's frequencies
  TestSessions other_model(source, request, 1);
  read(&sessions, 0, some_tokens(20, 1), 0, 20);
  read(&sessions, 1, some_tokens(5, 2), 0, 5);
  const std::vector<uint8_t> before = test::state_of(sessions.session(1));
  EXPECT_EQ(cria_copy_prefix(sessions.session(1), sessions.session(0), 21), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_copy_prefix(sessions.session(1), sessions.session(1), 2), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_copy_prefix(sessions.session(1), nullptr, 2), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_copy_prefix(nullptr, sessions.session(1), 2), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_copy_prefix(sessions.session(1), other_model.session(0), 0),
            CRIA_INVALID_ARGUMENT);
  EXPECT_TRUE(test::state_of(sessions.session(1)) == before);

  // A session of the same model with a smaller context.
  const cria_memory_plan plan = test::planned(sessions.info(), request);
  test::AlignedMemory memory(plan.session.total);
  cria_session* small = nullptr;
  ASSERT_EQ(cria_start(memory.data(), memory.size(), sessions.model(), &request, &small), CRIA_OK);
  EXPECT_EQ(cria_copy_prefix(small, sessions.session(0), 17),
            is_other_kind ? CRIA_INVALID_ARGUMENT : CRIA_CONTEXT_FULL);
  EXPECT_EQ(cria_copy_prefix(small, sessions.session(0), 16),
            is_other_kind ? CRIA_INVALID_ARGUMENT : CRIA_OK);
}

// Keys and values of the first layer follow from a token and its position alone, so a model of one
// layer must come to what it comes to without the dropped tokens, but for the rounding of keys.
TEST_P(SessionMoves, WithOneLayerDroppingIsLikeNeverHavingRead) {
  const MemorySource source = model_of(GetParam().kind, 1, 0);
  TestSessions sessions(source, config(), 2);
  const std::vector<uint32_t> tokens = some_tokens(120, 3);
  const double most = GetParam().kv_format == CRIA_KV_F32 ? 2e-4 : 2e-2;
  struct Dropped {
    uint32_t first;
    uint32_t n;
  };
  for (const Dropped d : {Dropped{0, 1}, Dropped{1, 1}, Dropped{0, 64}, Dropped{5, 60},
                          Dropped{63, 2}, Dropped{99, 1}, Dropped{1, 98}}) {
    for (size_t i = 0; i < 2; ++i) ASSERT_EQ(cria_reset(sessions.session(i), 0), CRIA_OK);
    read(&sessions, 0, tokens, 0, 100);
    ASSERT_EQ(cria_drop(sessions.workspace(), sessions.session(0), d.first, d.n), CRIA_OK);
    std::vector<uint32_t> left(tokens.begin(), tokens.begin() + 100);
    left.erase(left.begin() + d.first, left.begin() + d.first + d.n);
    ASSERT_EQ(cria_position(sessions.session(0)), left.size());
    EXPECT_TRUE(std::equal(left.begin(), left.end(), cria_tokens(sessions.session(0))));
    read(&sessions, 0, tokens, 100, 120);
    if (!left.empty()) read(&sessions, 1, left, 0, left.size());
    read(&sessions, 1, tokens, 100, 120);
    EXPECT_LE(relative_error(&sessions), most) << d.first << ' ' << d.n;
  }
}

TEST_P(SessionMoves, WhatEndsTheContextIsDroppedAsByReset) {
  const MemorySource source = model_of(GetParam().kind, 2, 0);
  TestSessions sessions(source, config(), 2);
  const std::vector<uint32_t> tokens = some_tokens(70, 4);
  for (size_t i = 0; i < 2; ++i) read(&sessions, i, tokens, 0, 60);
  ASSERT_EQ(cria_drop(sessions.workspace(), sessions.session(0), 41, 19), CRIA_OK);
  EXPECT_NE(cria_logits(sessions.session(0)), nullptr) << "the newest logits stay";
  ASSERT_EQ(cria_reset(sessions.session(1), 41), CRIA_OK);
  EXPECT_EQ(cria_logits(sessions.session(1)), nullptr);
  for (size_t i = 0; i < 2; ++i) read(&sessions, i, tokens, 41, 70);
  EXPECT_TRUE(test::state_of(sessions.session(0)) == test::state_of(sessions.session(1)));
  ASSERT_EQ(cria_drop(sessions.workspace(), sessions.session(0), 0, 70), CRIA_OK);
  EXPECT_EQ(cria_position(sessions.session(0)), 0u);
  EXPECT_EQ(cria_logits(sessions.session(0)), nullptr);
}

TEST_P(SessionMoves, NothingIsDroppedThatIsNotThere) {
  const MemorySource source = model_of(GetParam().kind, 2, 0);
  TestSessions sessions(source, config(), 1);
  read(&sessions, 0, some_tokens(20, 4), 0, 20);
  const std::vector<uint8_t> before = test::state_of(sessions.session(0));
  cria_workspace* const w = sessions.workspace();
  for (const auto& [first, n] : {std::pair{21u, 0u}, {0u, 21u}, {20u, 1u}, {1u, UINT32_MAX}}) {
    EXPECT_EQ(cria_drop(w, sessions.session(0), first, n), CRIA_INVALID_ARGUMENT);
  }
  EXPECT_EQ(cria_drop(nullptr, sessions.session(0), 0, 1), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_drop(w, nullptr, 0, 1), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_drop(w, sessions.session(0), 20, 0), CRIA_OK);
  EXPECT_TRUE(test::state_of(sessions.session(0)) == before);
}

// What is learned of a position stays in its rows.
TEST(LearnedPositions, AreNotDropped) {
  for (const bool are_learned : {false, true}) {
    ConfigParts c = test::small_config(NumberFormat::kInt4, 32);
    if (are_learned) c.model.flags |= format::kLearnedPositions;
    const MemorySource source(test::build_model(c.view(), kSeed));
    TestSessions sessions(source, {}, 1);
    read(&sessions, 0, some_tokens(20, 4), 0, 20);
    const std::vector<uint8_t> before = test::state_of(sessions.session(0));
    EXPECT_EQ(test::inspected(source.source()).can_drop, are_learned ? 0 : 1);
    EXPECT_EQ(cria_drop(sessions.workspace(), sessions.session(0), 1, 5),
              are_learned ? CRIA_UNSUPPORTED : CRIA_OK);
    EXPECT_EQ(test::state_of(sessions.session(0)) == before, are_learned);
  }
}

// Window 64, chunks of 7: a ring of 128 positions.
TEST_P(SessionMoves, ARingThatHasGoneRoundSaysWhatItForgot) {
  constexpr uint32_t kWindow = 64;
  const MemorySource source = model_of(GetParam().kind, 2, kWindow);
  TestSessions sessions(source, config(), 3);
  const std::vector<uint32_t> tokens = some_tokens(250, 6);
  read(&sessions, 0, tokens, 0, 200);
  cria_session* const s = sessions.session(0);
  // It holds positions 72 on; a token at 134 attends from 71 on.
  EXPECT_EQ(cria_reset(s, 134), CRIA_FORGOTTEN);
  EXPECT_EQ(cria_copy_prefix(sessions.session(1), s, 134), CRIA_FORGOTTEN);
  std::vector<uint8_t> state(test::state_of(s).size());
  EXPECT_EQ(cria_state_prefix_save(s, 134, state.data(), state.size()), CRIA_FORGOTTEN);
  // Position 100 is kept and would have to stay where it is.
  EXPECT_EQ(cria_drop(sessions.workspace(), s, 101, 10), CRIA_FORGOTTEN);
  EXPECT_EQ(cria_position(s), 200u);
  ASSERT_EQ(cria_copy_prefix(sessions.session(1), s, 135), CRIA_OK);
  state.resize(cria_state_prefix_size(s, 135));
  ASSERT_EQ(cria_state_prefix_save(s, 135, state.data(), state.size()), CRIA_OK);
  EXPECT_TRUE(state == test::state_of(sessions.session(1)));
  read(&sessions, 1, tokens, 135, 250);
  read(&sessions, 2, tokens, 0, 250);
  EXPECT_TRUE(test::state_of(sessions.session(1)) == test::state_of(sessions.session(2)));
  ASSERT_EQ(cria_reset(s, 135), CRIA_OK);
  read(&sessions, 0, tokens, 135, 250);
  EXPECT_TRUE(test::state_of(s) == test::state_of(sessions.session(2)));
  EXPECT_EQ(cria_reset(s, 0), CRIA_OK);
  read(&sessions, 0, tokens, 0, 250);
  EXPECT_TRUE(test::state_of(s) == test::state_of(sessions.session(2)));
}

// All that a token attends to was read after what is dropped: as if it had never been there.
TEST_P(SessionMoves, InARingTheOldestPositionsAreDroppedRoundAndRound) {
  const MemorySource source = model_of(GetParam().kind, 1, 64);
  TestSessions sessions(source, config(), 2);
  const std::vector<uint32_t> tokens = some_tokens(250, 6);
  const double most = GetParam().kv_format == CRIA_KV_F32 ? 2e-4 : 2e-2;
  for (const uint32_t n : {1u, 64u, 72u, 73u, 120u}) {
    for (size_t i = 0; i < 2; ++i) ASSERT_EQ(cria_reset(sessions.session(i), 0), CRIA_OK);
    read(&sessions, 0, tokens, 0, 200);
    ASSERT_EQ(cria_drop(sessions.workspace(), sessions.session(0), 0, n), CRIA_OK) << n;
    read(&sessions, 0, tokens, 200, 250);
    read(&sessions, 1, tokens, n, 250);
    ASSERT_EQ(cria_position(sessions.session(0)), cria_position(sessions.session(1)));
    EXPECT_LE(relative_error(&sessions), most) << n;
  }
}

TEST_P(SessionMoves, AStateGoesOnInARingOfAnotherSize) {
  const MemorySource source = model_of(GetParam().kind, 2, 64);
  const std::vector<uint32_t> tokens = some_tokens(250, 8);
  std::vector<std::vector<uint8_t>> states;
  std::vector<std::vector<uint8_t>> ends;
  for (const uint32_t chunk : {1u, 7u, 100u, 256u}) {
    cria_config request = config();
    request.prefill_chunk = chunk;
    TestSessions sessions(source, request, 1);
    read(&sessions, 0, tokens, 0, 200);
    states.push_back(test::state_of(sessions.session(0)));
    read(&sessions, 0, tokens, 200, 250);
    ends.push_back(test::state_of(sessions.session(0)));
    for (const std::vector<uint8_t>& state : states) {
      ASSERT_EQ(cria_state_load(sessions.session(0), state.data(), state.size()), CRIA_OK);
      read(&sessions, 0, tokens, 200, 250);
      EXPECT_TRUE(test::state_of(sessions.session(0)) == ends[0]) << chunk;
    }
    EXPECT_TRUE(ends.back() == ends[0]) << chunk;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SessionMoves, testing::ValuesIn(variants()),
                         [](const testing::TestParamInfo<Variant>& variant) {
                           return variant.param.name;
                         });

// What is dropped is turned back with the same bits by every kernel, in any number of threads.
TEST(SessionMovesBits, AreTheSameOnEveryIsa) {
  for (const cria_kv_format kv_format : {CRIA_KV_INT8, CRIA_KV_F32, CRIA_KV_K8V4}) {
    for (const auto& [kind, window] : {std::pair{Kind::kLlama, 0u},
                                       {Kind::kLlama, 64u},
                                       {Kind::kNearLlama, 0u},
                                       {Kind::kNearLlama, 64u},
                                       {Kind::kSharing, 64u}}) {
      const MemorySource source = model_of(kind, 3, window);
      const std::vector<uint32_t> tokens = some_tokens(250, 2);
      std::vector<uint8_t> want;
      for (const test::IsaRow& isa : test::runnable_isas()) {
        for (const uint32_t n_threads : {1u, 3u}) {
          cria_config config = {};
          config.backend = CRIA_BACKEND_EXACT;
          config.kv_format = kv_format;
          config.isa_mask = isa.mask;
          config.n_threads = n_threads;
          config.prefill_chunk = 16;
          TestSessions sessions(source, config, 1);
          read(&sessions, 0, tokens, 0, 200);
          ASSERT_EQ(cria_drop(sessions.workspace(), sessions.session(0), 0, 77), CRIA_OK);
          read(&sessions, 0, tokens, 200, 220);
          ASSERT_EQ(cria_drop(sessions.workspace(), sessions.session(0), 0, 3), CRIA_OK);
          read(&sessions, 0, tokens, 220, 250);
          const std::vector<uint8_t> state = test::state_of(sessions.session(0));
          if (want.empty()) want = state;
          EXPECT_TRUE(state == want) << isa.name << ' ' << n_threads << " window " << window;
        }
      }
    }
  }
}

}  // namespace
}  // namespace cria
