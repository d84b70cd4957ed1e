// Every index once, on all workers, and failures come back to the caller.
#include "converter/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace cria::test {
namespace {

using converter::WorkerPool;

TEST(WorkerPool, EveryIndexRunsOnce) {
  for (const size_t n_workers : {1u, 2u, 7u}) {
    WorkerPool pool(n_workers);
    ASSERT_EQ(pool.size(), n_workers);
    for (const size_t n : {0u, 1u, 2u, 1000u}) {
      std::vector<std::atomic<int>> counts(n);
      pool.parallel_for(n, [&](size_t i, size_t worker) {
        ASSERT_LT(worker, n_workers);
        ++counts[i];
      });
      for (size_t i = 0; i < n; ++i) ASSERT_EQ(counts[i], 1) << i;
    }
  }
}

TEST(WorkerPool, NoTwoCallsShareAWorker) {
  constexpr size_t kWorkers = 4;
  WorkerPool pool(kWorkers);
  std::vector<std::atomic<int>> inside(kWorkers);
  std::atomic<bool> shared = false;
  pool.parallel_for(10000, [&](size_t, size_t worker) {
    if (++inside[worker] != 1) shared = true;
    --inside[worker];
  });
  EXPECT_FALSE(shared);
}

TEST(WorkerPool, AFailureIsThrownOnAndThePoolGoesOn) {
  WorkerPool pool(3);
  for (int round = 0; round < 100; ++round) {
    EXPECT_THROW(pool.parallel_for(50,
                                   [](size_t i, size_t) {
                                     if (i == 20) throw std::runtime_error("twenty");
                                   }),
                 std::runtime_error);
    std::atomic<size_t> n_calls = 0;
    pool.parallel_for(50, [&](size_t, size_t) { ++n_calls; });
    ASSERT_EQ(n_calls, 50u);
  }
}

}  // namespace
}  // namespace cria::test
