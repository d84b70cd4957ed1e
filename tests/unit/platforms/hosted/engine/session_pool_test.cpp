#include "platforms/hosted/engine/session_pool.h"

#include <gtest/gtest.h>

#include "tests/support/engine_trial.h"
#include "tests/support/test_sessions.h"

namespace cria::hosted {
namespace {

using Tokens = std::vector<uint32_t>;

const test::MemorySource& source() {
  static const test::MemorySource result(
      test::convert_folder(test::golden_folder("odd-sizes"), {}));
  return result;
}

class Pool {
 public:
  explicit Pool(size_t n_sessions) : sessions_(source(), config(), n_sessions), pool(all()) {}

  // Gives a session to a prompt and has it read.
  uint32_t take(const Tokens& prompt) {
    const uint32_t session = pool.give(prompt);
    start = pool.begin(session, prompt);
    EXPECT_EQ(cria_position(pool.at(session)), start.n_cached);
    EXPECT_EQ(cria_prefill(sessions_.workspace(), pool.at(session), &prompt[start.n_cached],
                           prompt.size() - start.n_cached),
              CRIA_OK);
    return session;
  }
  // ... and come back.
  uint32_t pass(const Tokens& prompt) {
    const uint32_t session = take(prompt);
    pool.take_back(session);
    return session;
  }

 private:
  static cria_config config() {
    cria_config config = {};
    config.backend = CRIA_BACKEND_EXACT;
    config.context = 32;
    return config;
  }
  std::vector<cria_session*> all() {
    std::vector<cria_session*> result;
    for (size_t i = 0; i < sessions_.size(); ++i) result.push_back(sessions_.session(i));
    return result;
  }
  test::TestSessions sessions_;

 public:
  SessionPool pool;
  PromptStart start = {};
};

TEST(SessionPool, GoesOnWhereTheConversationIs) {
  Pool pool(3);
  EXPECT_EQ(pool.pass({1, 2, 3}), 0u);
  EXPECT_EQ(pool.pass({7, 8, 9}), 1u);
  EXPECT_EQ(pool.pass({7, 8, 9, 10}), 1u);
  EXPECT_EQ(pool.start.n_cached, 3u);
  EXPECT_FALSE(pool.start.copied_from);
  EXPECT_EQ(pool.pass({1, 2, 3, 4, 5}), 0u);
  EXPECT_EQ(pool.start.n_cached, 3u);
}

TEST(SessionPool, ReadsTheLastTokenAgain) {
  Pool pool(1);
  pool.pass({1, 2, 3});
  pool.pass({1, 2, 3});
  EXPECT_EQ(pool.start.n_cached, 2u);
  pool.pass({1});
  EXPECT_EQ(pool.start.n_cached, 0u);
}

TEST(SessionPool, CopiesFromABusySession) {
  Pool pool(2);
  EXPECT_EQ(pool.take({1, 2, 3, 4}), 0u);
  EXPECT_EQ(pool.take({1, 2, 3, 5}), 1u);
  EXPECT_EQ(pool.start.n_cached, 3u);
  EXPECT_EQ(pool.start.copied_from, 0u);
  EXPECT_EQ(pool.start.n_common, 3u);
  EXPECT_EQ(pool.start.n_held, 4u);
  EXPECT_EQ(pool.pool.n_idle(), 0u);
}

TEST(SessionPool, KeepsALongConversationForAShortPrefix) {
  Pool pool(2);
  pool.pass({1, 2, 3, 4, 5, 6, 7});
  EXPECT_EQ(pool.pass({1, 2, 9, 9}), 1u);  // two of seven: copied
  EXPECT_EQ(pool.start.copied_from, 0u);
  EXPECT_EQ(pool.start.n_cached, 2u);
  EXPECT_EQ(pool.pass({1, 2, 3, 4, 9, 9}), 0u);  // four of seven: taken
  EXPECT_EQ(pool.start.n_cached, 4u);
}

TEST(SessionPool, GivesWhatWasUsedLeastRecently) {
  Pool pool(3);
  pool.pass({1, 1});
  pool.pass({2, 2});
  pool.pass({3, 3});
  pool.pass({1, 1});
  EXPECT_EQ(pool.pass({4, 4}), 1u);
  EXPECT_EQ(pool.pass({5, 5}), 2u);
  EXPECT_EQ(pool.pass({6, 6}), 0u);
}

TEST(SessionPool, OwnTokensAreNotCopied) {
  Pool pool(2);
  pool.pass({1, 2, 3});
  pool.pass({9, 9});
  const uint32_t taken = pool.take({1, 2, 3, 4});
  EXPECT_EQ(taken, 0u);
  EXPECT_FALSE(pool.start.copied_from);
  EXPECT_EQ(pool.take({1, 2, 3, 4}), 1u);
  EXPECT_EQ(pool.start.copied_from, 0u);
}

}  // namespace
}  // namespace cria::hosted
