// Layers whose state cannot be cut back: snapshots, and whatever moves a session, against a session
// that read the same tokens anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "tests/support/matrix_formats.h"
#include "tests/support/model_builder.h"
#include "tests/support/sealed.h"
#include "tests/support/seeds.h"
#include "tests/support/some_tokens.h"
#include "tests/support/test_configs.h"
#include "tests/support/test_session.h"
#include "tests/support/test_sessions.h"

namespace cria {
namespace {

using format::FeedForward;
using format::Mixer;
using test::MemorySource;
using test::TestSessions;

constexpr uint32_t kVocab = 50;
constexpr uint32_t kContext = 300;
constexpr uint32_t kSnapshots = 3;
constexpr uint32_t kLayers = 5;

format::LayerKind kind_of(Mixer mixer) {
  format::LayerKind k = test::small_kind(mixer, FeedForward::kDense);
  k.flags |= format::flag::kGated;
  test::bring_out(&k);
  return k;
}

// Every mixer that keeps blocks, of convolutions two lengths, with attention between them.
MemorySource model_of(uint32_t window) {
  ConfigParts c = test::small_config(format::NumberFormat::kInt4, 32);
  c.model.max_context = c.model.planned_context = kContext;
  c.model.residual_multiplier = 20.0f;
  c.kinds[0].window = window;
  c.kinds[0].score_multiplier = 1e3f;
  format::LayerKind longer = kind_of(Mixer::kShortConvolution);
  longer.conv_taps = 5;
  longer.flags |= format::flag::kConvolutionBias | format::flag::kMixerBias;
  const std::vector<format::LayerKind> layers = {kind_of(Mixer::kShortConvolution), c.kinds[0],
                                                 longer, kind_of(Mixer::kDeltaRule),
                                                 kind_of(Mixer::kStateSpace)};
  EXPECT_EQ(layers.size(), kLayers);
  c.set_layers(layers);
  test::set_all_formats(&c, {format::NumberFormat::kInt4, 32});
  return MemorySource(test::build_model(c.view(), 5));
}

// Stops a step after so many layers of chunks.
struct Stop {
  uint32_t after = UINT32_MAX;
  static int ask(void* context, uint64_t, uint64_t) {
    auto* const stop = static_cast<Stop*>(context);
    return stop->after-- == 0 ? 1 : 0;
  }
};

cria_config config_of(cria_backend backend, Stop* stop = nullptr) {
  cria_config config = {};
  config.backend = backend;
  config.context = kContext;
  config.prefill_chunk = 7;
  config.n_snapshots = kSnapshots;
  config.step_progress = stop != nullptr ? Stop::ask : nullptr;
  config.progress_context = stop;
  return config;
}

void read(TestSessions* sessions, size_t i, const std::vector<uint32_t>& tokens) {
  if (tokens.empty()) return;
  ASSERT_EQ(cria_prefill(sessions->workspace(), sessions->session(i), tokens.data(), tokens.size()),
            CRIA_OK);
}

std::vector<uint32_t> some_tokens(size_t n, uint32_t salt) {
  return test::some_tokens(n, kVocab, salt);
}

// Sessions 0 and 1 move about; 2 reads anew what they should hold.
class Walk {
 public:
  Walk(TestSessions* sessions, Stop* stop, uint32_t seed, bool has_window)
      : s_(*sessions), stop_(*stop), random_(seed), has_window_(has_window) {}

  void run() {
    constexpr int kSteps = 60;
    for (int i = 0; i < kSteps; ++i) {
      move();
      if (testing::Test::HasFatalFailure()) return;
      compare();
      if (testing::Test::HasFailure()) return;
    }
  }

 private:
  // What a session should hold.
  struct Held {
    std::vector<uint32_t> tokens;
    std::set<uint32_t> snapshots;
  };

  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_()) % n; }
  cria_session* session(size_t i) { return s_.session(i); }

  std::vector<uint32_t> new_tokens(size_t held) {
    const uint32_t most = below(4) == 0 ? 40 : 9;
    std::vector<uint32_t> tokens(std::min<size_t>(1 + below(most), kContext - 20 - held));
    for (uint32_t& token : tokens) token = below(kVocab);
    return tokens;
  }

  void move() {
    const size_t i = below(2);
    Held& held = held_[i];
    if (held.tokens.size() + 30 > kContext) return reset(i, below(kContext / 2));
    switch (below(8)) {
      case 0:
      case 1:
        return keep(i);
      case 2:
        return reset(i, below(static_cast<uint32_t>(held.tokens.size()) + 1));
      case 3:
        return copy(i);
      case 4:
        return load(i);
      case 5:
        return cancel(i);
      case 6:
        return read_both();
      default:
        return append(i, new_tokens(held.tokens.size()));
    }
  }

  void append(size_t i, const std::vector<uint32_t>& tokens) {
    if (tokens.empty()) return;
    ASSERT_NO_FATAL_FAILURE(read(&s_, i, tokens));
    held_[i].tokens.insert(held_[i].tokens.end(), tokens.begin(), tokens.end());
  }

  void read_both() {
    std::vector<uint32_t> tokens[2];
    std::vector<cria_batch_entry> entries;
    for (size_t i = 0; i < 2; ++i) {
      tokens[i] = new_tokens(held_[i].tokens.size());
      if (!tokens[i].empty()) {
        entries.push_back({session(i), tokens[i].data(), tokens[i].size(), nullptr, {}});
      }
    }
    if (entries.empty()) return;
    ASSERT_EQ(cria_step(s_.workspace(), entries.data(), entries.size()), CRIA_OK);
    for (size_t i = 0; i < 2; ++i) {
      held_[i].tokens.insert(held_[i].tokens.end(), tokens[i].begin(), tokens[i].end());
    }
  }

  // As cria.h says: the one that is nearest to the one before it goes. Now and then a position is
  // still to come.
  void keep(size_t i) {
    std::set<uint32_t>& kept = held_[i].snapshots;
    auto position = static_cast<uint32_t>(held_[i].tokens.size());
    if (position > 0 && kept.count(position - 1) == 0) {
      ASSERT_EQ(cria_keep_snapshot(session(i), position - 1),
                position == 1 ? CRIA_OK : CRIA_FORGOTTEN);
    }
    if (below(2) == 0) position += below(12);
    ASSERT_EQ(cria_keep_snapshot(session(i), position), CRIA_OK);
    if (position == 0 || kept.count(position) != 0) return;
    if (kept.size() == kSnapshots) {
      uint32_t before = 0;
      uint32_t least = UINT32_MAX;
      uint32_t gone = 0;
      for (const uint32_t at : kept) {
        if (at - before < least) {
          least = at - before;
          gone = at;
        }
        before = at;
      }
      kept.erase(gone);
    }
    kept.insert(position);
  }

  // The last position up to this one that a session can go back to.
  [[nodiscard]] uint32_t last_kept(size_t i, uint32_t position) const {
    if (position == held_[i].tokens.size()) return position;
    const auto behind = held_[i].snapshots.upper_bound(position);
    return behind == held_[i].snapshots.begin() ? 0 : *std::prev(behind);
  }

  // Of all snapshots those that are passed.
  [[nodiscard]] std::vector<uint32_t> passed(size_t i) const {
    const std::set<uint32_t>& kept = held_[i].snapshots;
    return {kept.begin(), kept.upper_bound(static_cast<uint32_t>(held_[i].tokens.size()))};
  }

  void reset(size_t i, uint32_t wanted) {
    const uint32_t position = std::min(wanted, static_cast<uint32_t>(held_[i].tokens.size()));
    const uint32_t expected = last_kept(i, position);
    const uint32_t told = cria_resume_position(session(i), position);
    ASSERT_EQ(cria_reset(session(i), position), CRIA_OK);
    const uint32_t now = cria_position(session(i));
    EXPECT_EQ(now, told);
    if (has_window_ && now != expected) {
      // What it attends to may be gone; then it is another one.
      EXPECT_LT(now, expected);
      EXPECT_TRUE(now == 0 || held_[i].snapshots.count(now) != 0);
    } else {
      EXPECT_EQ(now, expected);
    }
    EXPECT_EQ(cria_logits(session(i)), nullptr);
    cut(i, now);
  }

  void cut(size_t i, uint32_t position) {
    held_[i].tokens.resize(position);
    std::set<uint32_t>& kept = held_[i].snapshots;
    kept.erase(kept.upper_bound(position), kept.end());
    if (position == 0) kept.clear();
  }

  // A position to copy or save up to, and whether it can be.
  std::pair<uint32_t, bool> some_prefix(size_t i) {
    const auto n = static_cast<uint32_t>(held_[i].tokens.size());
    std::vector<uint32_t> places = passed(i);
    places.push_back(n);
    places.push_back(below(n + 1));
    const uint32_t position = places[below(static_cast<uint32_t>(places.size()))];
    return {position, last_kept(i, position) == position};
  }

  void copy(size_t from) {
    const size_t to = 1 - from;
    const auto [n, is_there] = some_prefix(from);
    const cria_status status = cria_copy_prefix(session(to), session(from), n);
    if (!is_there || (has_window_ && status != CRIA_OK)) {
      ASSERT_EQ(status, CRIA_FORGOTTEN);
      return;
    }
    ASSERT_EQ(status, CRIA_OK);
    held_[to] = held_[from];
    held_[to].tokens.resize(n);
    held_[to].snapshots.clear();
  }

  void load(size_t from) {
    const size_t to = below(2);
    const auto [n, is_there] = some_prefix(from);
    std::vector<uint8_t> state(cria_state_prefix_size(session(from), n));
    const cria_status status = cria_state_prefix_save(session(from), n, state.data(), state.size());
    if (!is_there || (has_window_ && status != CRIA_OK)) {
      ASSERT_EQ(status, CRIA_FORGOTTEN);
      return;
    }
    ASSERT_EQ(status, CRIA_OK);
    // What does not hold changes nothing.
    state.back() ^= 1;
    EXPECT_EQ(cria_state_load(session(to), state.data(), state.size()), CRIA_BAD_STATE);
    state.back() ^= 1;
    ASSERT_EQ(cria_state_load(session(to), state.data(), state.size()), CRIA_OK);
    held_[to] = held_[from];
    held_[to].tokens.resize(n);
    held_[to].snapshots.clear();
  }

  void cancel(size_t i) {
    const std::vector<uint32_t> tokens = new_tokens(held_[i].tokens.size());
    if (tokens.empty()) return;
    const std::vector<uint8_t> before =
        has_window_ ? std::vector<uint8_t>() : test::state_of(session(i));
    stop_.after = below(static_cast<uint32_t>((tokens.size() + 6) / 7 * kLayers));
    ASSERT_EQ(cria_prefill(s_.workspace(), session(i), tokens.data(), tokens.size()),
              CRIA_CANCELLED);
    stop_.after = UINT32_MAX;
    if (has_window_) {
      const uint32_t now = cria_position(session(i));
      ASSERT_TRUE(now == held_[i].tokens.size() || now == 0);
      if (now == 0) cut(i, 0);
      return;
    }
    EXPECT_TRUE(test::state_of(session(i)) == before);
  }

  // Both hold what a session holds that reads their tokens and one more.
  void compare() {
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(cria_position(session(i)), held_[i].tokens.size());
      if (held_[i].tokens.size() + 1 > kContext) continue;
      ASSERT_NO_FATAL_FAILURE(append(i, {below(kVocab)}));
      ASSERT_EQ(cria_reset(session(2), 0), CRIA_OK);
      ASSERT_NO_FATAL_FAILURE(read(&s_, 2, held_[i].tokens));
      EXPECT_TRUE(test::state_of(session(i)) == test::state_of(session(2)));
    }
  }

  TestSessions& s_;
  Stop& stop_;
  std::mt19937 random_;
  bool has_window_;
  Held held_[2];
};

class Snapshots : public testing::TestWithParam<cria_backend> {};

TEST_P(Snapshots, RandomWalksEndWhereTheTokensReadAnewDo) {
  for (const uint32_t window : {0u, 16u}) {
    const MemorySource source = model_of(window);
    Stop stop;
    TestSessions sessions(source, config_of(GetParam(), &stop), 3);
    test::for_each_seed({1, 2, 3, 4}, [&](uint32_t seed) {
      SCOPED_TRACE(testing::Message() << "window " << window << ", seed " << seed);
      for (size_t i = 0; i < 2; ++i) ASSERT_EQ(cria_reset(sessions.session(i), 0), CRIA_OK);
      Walk(&sessions, &stop, seed, window != 0).run();
    });
  }
}

TEST_P(Snapshots, TellWhereToReadOnFrom) {
  const MemorySource source = model_of(0);
  TestSessions sessions(source, config_of(GetParam()), 2);
  EXPECT_EQ(sessions.info().keeps_blocks, 1);
  EXPECT_EQ(sessions.info().can_drop, 0);
  cria_session* const s = sessions.session(0);
  const std::vector<uint32_t> tokens = some_tokens(60, 3);
  ASSERT_EQ(cria_keep_snapshot(s, 0), CRIA_OK);  // of nothing
  read(&sessions, 0, {tokens.begin(), tokens.begin() + 10});
  ASSERT_EQ(cria_keep_snapshot(s, 10), CRIA_OK);
  ASSERT_EQ(cria_keep_snapshot(s, 40), CRIA_OK);
  EXPECT_EQ(cria_resume_position(s, 40), 10u);
  read(&sessions, 0, {tokens.begin() + 10, tokens.end()});
  EXPECT_EQ(cria_keep_snapshot(s, 20), CRIA_FORGOTTEN);
  EXPECT_EQ(cria_keep_snapshot(s, kContext + 1), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_drop(sessions.workspace(), s, 0, 1), CRIA_UNSUPPORTED);
  EXPECT_EQ(cria_position(s), 60u);
  EXPECT_EQ(cria_reset(s, 61), CRIA_INVALID_ARGUMENT);
  ASSERT_EQ(cria_reset(s, 60), CRIA_OK);  // where it stands
  EXPECT_EQ(cria_position(s), 60u);
  struct Row {
    uint32_t wanted;
    uint32_t found;
  };
  for (const Row row : {Row{59, 40}, {40, 40}, {39, 10}, {9, 0}, {0, 0}}) {
    EXPECT_EQ(cria_resume_position(s, row.wanted), row.found) << row.wanted;
    ASSERT_EQ(cria_reset(s, row.wanted), CRIA_OK);
    EXPECT_EQ(cria_position(s), row.found) << row.wanted;
  }
  read(&sessions, 0, tokens);
  read(&sessions, 1, tokens);
  EXPECT_TRUE(test::state_of(s) == test::state_of(sessions.session(1)));
}

// One chunk with three of them, and the logits of the last token again.
TEST_P(Snapshots, TheSamePromptAgainReadsItsLastTokenAlone) {
  const MemorySource source = model_of(0);
  cria_config config = config_of(GetParam());
  config.prefill_chunk = 64;
  TestSessions sessions(source, config, 2);
  cria_session* const s = sessions.session(0);
  const std::vector<uint32_t> tokens = some_tokens(50, 3);
  for (const uint32_t position : {3u, 20u, 49u}) {
    ASSERT_EQ(cria_keep_snapshot(s, position), CRIA_OK);
  }
  for (size_t i = 0; i < 2; ++i) read(&sessions, i, tokens);
  const std::vector<uint8_t> fresh = test::state_of(sessions.session(1));
  EXPECT_TRUE(test::state_of(s) == fresh);
  for (const uint32_t position : {49u, 20u, 3u}) {
    read(&sessions, 0, some_tokens(9, 1));  // an answer
    ASSERT_EQ(cria_reset(s, position), CRIA_OK);
    ASSERT_EQ(cria_position(s), position);
    read(&sessions, 0, {tokens.begin() + position, tokens.end()});
    EXPECT_TRUE(test::state_of(s) == fresh) << position;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Snapshots, testing::ValuesIn(test::built_backends()),
                         test::backend_label);

TEST(SnapshotPlans, AreHeldToTheirLimits) {
  const MemorySource source = model_of(0);
  const cria_model_info info = test::inspected(source.source());
  cria_config config = config_of(CRIA_BACKEND_EXACT);
  const auto bytes = [&](uint32_t n_snapshots) {
    config.n_snapshots = n_snapshots;
    return test::planned(info, config).session.total;
  };
  EXPECT_EQ(bytes(0), bytes(2));
  EXPECT_LT(bytes(CRIA_NO_SNAPSHOTS), bytes(1));
  EXPECT_LT(bytes(1), bytes(CRIA_MAX_SNAPSHOTS));
  config.n_snapshots = CRIA_MAX_SNAPSHOTS + 1;
  cria_memory_plan plan;
  EXPECT_EQ(cria_plan(&info, &config, &plan), CRIA_INVALID_ARGUMENT);
}

TEST(SnapshotPlans, WithoutOnesASessionBeginsAnew) {
  const MemorySource source = model_of(0);
  cria_config config = config_of(CRIA_BACKEND_EXACT);
  config.n_snapshots = CRIA_NO_SNAPSHOTS;
  TestSessions sessions(source, config, 2);
  cria_session* const s = sessions.session(0);
  const std::vector<uint32_t> tokens = some_tokens(30, 3);
  read(&sessions, 0, some_tokens(20, 1));
  EXPECT_EQ(cria_keep_snapshot(s, 20), CRIA_UNSUPPORTED);
  EXPECT_EQ(cria_keep_snapshot(nullptr, 20), CRIA_INVALID_ARGUMENT);
  EXPECT_EQ(cria_resume_position(nullptr, 20), 0u);
  ASSERT_EQ(cria_reset(s, 19), CRIA_OK);
  EXPECT_EQ(cria_position(s), 0u);
  for (size_t i = 0; i < 2; ++i) read(&sessions, i, tokens);
  EXPECT_TRUE(test::state_of(s) == test::state_of(sessions.session(1)));
}

TEST(SnapshotPlans, ModelsOfRowsAloneNeedNone) {
  const ConfigParts parts = test::small_config(format::NumberFormat::kInt4, 32);
  ConfigParts c = parts;
  const MemorySource source(test::build_model(c.view(), 5));
  cria_config config = {};
  config.n_snapshots = CRIA_NO_SNAPSHOTS;
  TestSessions sessions(source, config, 1);
  EXPECT_EQ(sessions.info().keeps_blocks, 0);
  read(&sessions, 0, some_tokens(20, 1));
  EXPECT_EQ(cria_keep_snapshot(sessions.session(0), 7), CRIA_OK);
  EXPECT_EQ(cria_resume_position(sessions.session(0), 9), 9u);
  ASSERT_EQ(cria_reset(sessions.session(0), 7), CRIA_OK);
  EXPECT_EQ(cria_position(sessions.session(0)), 7u);
}

// The header of a state (runtime/decode/state.cpp): its position.
constexpr size_t kHeaderBytes = 48;
constexpr size_t kPositionPlace = 36;

template <typename Value>
void put(std::vector<uint8_t>* state, size_t place, Value value) {
  std::memcpy(state->data() + place, &value, sizeof value);
}

// Blocks hold floats of any bits; sizes are those of the positions.
TEST(HostileBlocks, DoNoHarm) {
  const MemorySource source = model_of(0);
  TestSessions sessions(source, config_of(CRIA_BACKEND_EXACT), 1);
  cria_session* const s = sessions.session(0);
  read(&sessions, 0, some_tokens(20, 1));
  const std::vector<uint8_t> good = test::state_of(s);
  test::for_each_seed({7}, [&](uint32_t seed) {
    std::mt19937 random(seed);
    size_t n_loaded = 0;
    for (int round = 0; round < 500; ++round) {
      std::vector<uint8_t> state = good;
      for (size_t n = random() % 64; n > 0; --n) {
        state[kHeaderBytes + random() % (state.size() - kHeaderBytes)] =
            static_cast<uint8_t>(random());
      }
      if (random() % 4 == 0) put(&state, kPositionPlace, static_cast<uint32_t>(random() % 40));
      if (random() % 4 == 0) state.resize(kHeaderBytes + random() % good.size());
      test::seal(&state, test::kStateChecksum, state.size());
      const cria_status status = cria_state_load(s, state.data(), state.size());
      ASSERT_TRUE(status == CRIA_OK || status == CRIA_BAD_STATE) << status;
      if (status != CRIA_OK) continue;
      ++n_loaded;
      ASSERT_EQ(cria_reset(s, cria_position(s)), CRIA_OK);
      ASSERT_NO_FATAL_FAILURE(read(&sessions, 0, some_tokens(3, 2)));
    }
    EXPECT_GT(n_loaded, 0u);
  });
  ASSERT_EQ(cria_state_load(s, good.data(), good.size()), CRIA_OK);
  EXPECT_TRUE(test::state_of(s) == good);
}

}  // namespace
}  // namespace cria
