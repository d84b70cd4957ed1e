// States whose checksum holds but which no session saved: each is refused and changes nothing, or
// does no harm.
#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/sampling_of.h"
#include "tests/support/sealed.h"
#include "tests/support/seeds.h"
#include "tests/support/test_session.h"
#include "tests/system/tiny_chat_model.h"

namespace cria {
namespace {

using test::TestSession;

// The header of a state (runtime/decode/state.cpp).
constexpr size_t kHeaderBytes = 48;
constexpr size_t kRandomPlace = 24;
constexpr size_t kPositionPlace = 36;
constexpr size_t kLogitsPlace = 40;
constexpr uint32_t kPrompt[] = {1, 2, 3, 4, 5};
constexpr size_t kPositions = std::size(kPrompt);
// Of the tiny model: a row of codes, and of it the codes and scales of one layer's one head.
constexpr size_t kHeadDim = 16;
constexpr size_t kRowBytes = kPositions * kHeadDim;

cria_config config_with(cria_kv_format kv) {
  cria_config config = {};
  config.backend = CRIA_BACKEND_EXACT;
  config.kv_format = kv;
  return config;
}

const test::MemorySource& source() {
  static const test::MemorySource memory(test::tiny_model());
  return memory;
}

std::vector<uint8_t> saved(TestSession* session) {
  EXPECT_EQ(cria_reset(session->session(), 0), CRIA_OK);
  EXPECT_EQ(cria_prefill(session->workspace(), session->session(), kPrompt, kPositions), CRIA_OK);
  std::vector<uint8_t> state(cria_state_size(session->session()));
  EXPECT_EQ(cria_state_save(session->session(), state.data(), state.size()), CRIA_OK);
  return state;
}

template <typename Value>
void put(std::vector<uint8_t>* state, size_t place, Value value) {
  std::memcpy(state->data() + place, &value, sizeof value);
}

cria_status load(TestSession* session, std::vector<uint8_t>* state) {
  test::seal(state, test::kStateChecksum, state->size());
  // At an odd address: the bytes are the caller's.
  std::vector<uint8_t> shifted(state->size() + 1);
  std::memcpy(shifted.data() + 1, state->data(), state->size());
  return cria_state_load(session->session(), shifted.data() + 1, state->size());
}

// Draws and feeds a few tokens.
void use(TestSession* session) {
  const cria_sampling kinds[] = {{},
                                 test::sampling_of(0.8f, 0.9f, 0.05f, 1.1f, 20),
                                 test::sampling_of(1.0f, 0.5f, 0, 1.0f, 0)};
  for (const cria_sampling& sampling : kinds) {
    uint32_t token = 0;
    if (cria_sample(session->workspace(), session->session(), &sampling, &token) != CRIA_OK) return;
    ASSERT_LT(token, session->info().vocab_size);
    if (cria_prefill(session->workspace(), session->session(), &token, 1) != CRIA_OK) return;
  }
}

TEST(HostileState, WhatNoSessionSavesIsRefusedAndChangesNothing) {
  TestSession session(source(), config_with(CRIA_KV_INT8));
  const std::vector<uint8_t> good = saved(&session);
  const size_t codes = kHeaderBytes + kPositions * sizeof(uint32_t);
  const size_t scales = codes + 2 * kRowBytes;  // keys, then values, then their scales
  const float nan = std::numeric_limits<float>::quiet_NaN();
  struct Lie {
    const char* what;
    void (*tell)(std::vector<uint8_t>* state, size_t place, float value);
    size_t place;
    float value;
  };
  const auto put_float = [](std::vector<uint8_t>* s, size_t place, float x) { put(s, place, x); };
  const auto put_code = [](std::vector<uint8_t>* s, size_t place, float) {
    put(s, place, uint8_t{0x80});
  };
  const auto put_word = [](std::vector<uint8_t>* s, size_t place, float x) {
    put(s, place, static_cast<uint32_t>(x));
  };
  const auto vocab = static_cast<float>(session.info().vocab_size);
  const Lie lies[] = {
      {"a token past the vocabulary", put_word, kHeaderBytes, vocab},
      {"the last token past the vocabulary", put_word, codes - sizeof(uint32_t), 1e9f},
      {"a key of -128", put_code, codes, 0},
      {"the last value of -128", put_code, scales - 1, 0},
      {"a scale that is no number", put_float, scales, nan},
      {"a negative scale", put_float, scales + sizeof(float), -1.0f},
      {"an infinite scale", put_float, scales + 2 * kPositions * sizeof(float) - sizeof(float),
       HUGE_VALF},
      {"more positions", put_word, kPositionPlace, kPositions + 1},
      {"fewer positions", put_word, kPositionPlace, kPositions - 1},
      {"no logits", put_word, kLogitsPlace, 0},
      {"logits twice", put_word, kLogitsPlace, 2},
  };
  for (const Lie& lie : lies) {
    std::vector<uint8_t> state = good;
    lie.tell(&state, lie.place, lie.value);
    EXPECT_EQ(load(&session, &state), CRIA_BAD_STATE) << lie.what;
  }
  std::vector<uint8_t> too_long = good;
  put(&too_long, kPositionPlace, uint32_t{1} << 30);
  EXPECT_EQ(load(&session, &too_long), CRIA_CONTEXT_FULL);
  EXPECT_EQ(cria_position(session.session()), kPositions);
  std::vector<uint8_t> now(cria_state_size(session.session()));
  ASSERT_EQ(cria_state_save(session.session(), now.data(), now.size()), CRIA_OK);
  EXPECT_EQ(now, good);
}

TEST(HostileState, NoBitOfTheHeaderIsTakenOnTrust) {
  TestSession session(source(), config_with(CRIA_KV_INT8));
  const std::vector<uint8_t> good = saved(&session);
  for (size_t bit = 0; bit < CHAR_BIT * kHeaderBytes; ++bit) {
    std::vector<uint8_t> state = good;
    state[bit / CHAR_BIT] ^= static_cast<uint8_t>(1u << bit % CHAR_BIT);
    EXPECT_NE(cria_state_load(session.session(), state.data(), state.size()), CRIA_OK) << bit;
  }
  EXPECT_EQ(cria_state_load(session.session(), good.data(), good.size()), CRIA_OK);
}

// Of 4-bit values every code stands for something; scales are of either sign, and finite.
TEST(HostileState, ScalesOf4BitValuesAreFinite) {
  TestSession session(source(), config_with(CRIA_KV_K8V4));
  const std::vector<uint8_t> good = saved(&session);
  const size_t keys = kHeaderBytes + kPositions * sizeof(uint32_t);
  const size_t values = keys + kRowBytes;
  const size_t key_scales = values + kRowBytes / 2;
  const size_t value_scales = key_scales + kPositions * sizeof(float);
  const size_t last = value_scales + (kPositions - 1) * sizeof(uint16_t);
  for (const size_t place : {value_scales, last}) {
    for (const uint32_t bits : {0x7f80u, 0xff80u, 0x7fc0u, 0xffffu}) {
      std::vector<uint8_t> state = good;
      put(&state, place, static_cast<uint16_t>(bits));
      EXPECT_EQ(load(&session, &state), CRIA_BAD_STATE) << place << ' ' << bits;
    }
  }
  std::vector<uint8_t> state = good;
  put(&state, keys, uint8_t{0x80});
  EXPECT_EQ(load(&session, &state), CRIA_BAD_STATE);
  state = good;
  put(&state, key_scales, -1.0f);
  EXPECT_EQ(load(&session, &state), CRIA_BAD_STATE);
  state = good;
  for (size_t place = values; place < key_scales; ++place) state[place] = 0x80;
  put(&state, last, uint16_t{0xff7f});
  EXPECT_EQ(load(&session, &state), CRIA_OK);
  ASSERT_NO_FATAL_FAILURE(use(&session));
}

// Values that a model can compute, however wrong, are taken; what is drawn from them is a token.
void load_odd_floats(uint32_t seed) {
  std::mt19937 random(seed);
  for (const cria_kv_format kv : {CRIA_KV_F32, CRIA_KV_INT8, CRIA_KV_K8V4}) {
    TestSession session(source(), config_with(kv));
    const std::vector<uint8_t> good = saved(&session);
    const size_t logits = good.size() - session.info().vocab_size * sizeof(float);
    const size_t from = kv == CRIA_KV_F32 ? kHeaderBytes + kPositions * sizeof(uint32_t) : logits;
    const float odd[] = {std::numeric_limits<float>::quiet_NaN(), HUGE_VALF, -HUGE_VALF, 3e38f,
                         1e-42f};
    for (int round = 0; round < 50; ++round) {
      std::vector<uint8_t> state = good;
      put(&state, kRandomPlace, uint64_t{random()} << 32 | random());
      for (size_t place = from; place + sizeof(float) <= state.size(); place += sizeof(float)) {
        if (random() % 3 == 0 || round == 0) put(&state, place, odd[random() % std::size(odd)]);
        if (round == 1) put(&state, place, odd[0]);
      }
      ASSERT_EQ(load(&session, &state), CRIA_OK);
      ASSERT_NO_FATAL_FAILURE(use(&session));
    }
  }
}

TEST(HostileState, FloatsAndRandomStatesOfAnyBitsDoNoHarm) {
  test::for_each_seed({13}, load_odd_floats);
}

void load_changed_states(uint32_t seed) {
  for (const cria_kv_format kv : {CRIA_KV_INT8, CRIA_KV_K8V4}) {
    std::mt19937 random(seed);
    TestSession session(source(), config_with(kv));
    const std::vector<uint8_t> good = saved(&session);
    size_t loaded = 0;
    constexpr size_t kRounds = 3000;
    for (size_t round = 0; round < kRounds; ++round) {
      std::vector<uint8_t> state = good;
      // Half of the changes go to the header.
      const size_t range = random() % 2 == 0 ? kHeaderBytes : state.size();
      for (size_t n = random() % 3 + 1; n > 0; --n) {
        state[random() % range] = static_cast<uint8_t>(random());
      }
      if (random() % 8 == 0) state.resize(random() % (state.size() - kHeaderBytes) + kHeaderBytes);
      if (load(&session, &state) != CRIA_OK) continue;
      ++loaded;
      ASSERT_NO_FATAL_FAILURE(use(&session));
    }
    EXPECT_GT(loaded, 0U);
    EXPECT_LT(loaded, kRounds);
  }
}

TEST(HostileState, RandomChangesDoNoHarm) { test::for_each_seed({14}, load_changed_states); }

}  // namespace
}  // namespace cria
