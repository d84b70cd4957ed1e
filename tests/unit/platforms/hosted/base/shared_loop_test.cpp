// Every index once, on all workers, and failures come back to the caller.
#include "platforms/hosted/base/shared_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

namespace cria::hosted {
namespace {

TEST(SharedLoop, EveryIndexRunsOnce) {
  for (const size_t n_workers : {1u, 2u, 7u}) {
    ThreadPool pool(n_workers, FewerThreads::kAreRefused);
    ASSERT_EQ(pool.n_threads(), n_workers);
    for (const size_t n : {size_t{0}, size_t{1}, size_t{2}, size_t{1000}, size_t{100000}}) {
      std::vector<std::atomic<int>> counts(n);
      shared_loop(&pool, n, [&](size_t i, size_t worker) {
        ASSERT_LT(worker, n_workers);
        ++counts[i];
      });
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(counts[i], 1) << i;
    }
  }
}

TEST(SharedLoop, NoTwoCallsShareAWorker) {
  constexpr size_t kWorkers = 4;
  ThreadPool pool(kWorkers, FewerThreads::kAreRefused);
  std::vector<std::atomic<int>> inside(kWorkers);
  std::atomic<bool> shared = false;
  shared_loop(&pool, 10000, [&](size_t, size_t worker) {
    if (++inside[worker] != 1) shared = true;
    --inside[worker];
  });
  EXPECT_FALSE(shared);
}

TEST(SharedLoop, AFailureIsThrownOnAndThePoolGoesOn) {
  ThreadPool pool(3, FewerThreads::kAreRefused);
  for (int round = 0; round < 100; ++round) {
    EXPECT_THROW(shared_loop(&pool, 50,
                             [](size_t i, size_t) {
                               if (i == 20) throw std::runtime_error("twenty");
                             }),
                 std::runtime_error);
    std::atomic<size_t> n_calls = 0;
    shared_loop(&pool, 50, [&](size_t, size_t) { ++n_calls; });
    ASSERT_EQ(n_calls, 50u);
  }
}

// Whichever thread fails first: what a program prints is no matter of chance.
TEST(SharedLoop, OfSeveralFailuresTheLowestIndexCounts) {
  ThreadPool pool(4, FewerThreads::kAreRefused);
  for (int round = 0; round < 200; ++round) {
    try {
      shared_loop(&pool, 100, [](size_t i, size_t) {
        if (i % 10 == 3) throw std::runtime_error(std::to_string(i));
      });
      FAIL() << "nothing was thrown";
    } catch (const std::runtime_error& error) {
      ASSERT_STREQ(error.what(), "3");
    }
  }
}

}  // namespace
}  // namespace cria::hosted
