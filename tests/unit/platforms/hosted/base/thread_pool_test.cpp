// Every task once, calls that never mix, and a caller that works too.
#include "platforms/hosted/base/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "tests/support/patience.h"

namespace cria::hosted {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (const uint32_t n_threads : {2U, 3U, 7U}) {
    ThreadPool pool(n_threads, FewerThreads::kAreRefused);
    ASSERT_NE(pool.hook(), nullptr);
    for (size_t n_tasks = 0; n_tasks <= n_threads; ++n_tasks) {
      std::vector<std::atomic<int>> runs(n_threads);
      pool.hook()(
          pool.context(),
          [](void* argument, size_t index) {
            ++(*static_cast<std::vector<std::atomic<int>>*>(argument))[index];
          },
          &runs, n_tasks);
      for (size_t i = 0; i < n_threads; ++i) EXPECT_EQ(runs[i], i < n_tasks ? 1 : 0);
    }
  }
}

// Calls follow each other closely, with a pause now and then long enough for the workers to sleep;
// the sum is right only if each call's tasks are all done, and done once, before it returns.
TEST(ThreadPool, CallsInARowNeverMix) {
  constexpr uint32_t kThreads = 4;
  ThreadPool pool(kThreads, FewerThreads::kAreRefused);
  struct Call {
    uint64_t number;
    std::array<uint64_t, kThreads> seen;
  };
  for (uint64_t number = 1; number <= 20000; ++number) {
    Call call = {number, {}};
    const size_t n_tasks = 1 + number % kThreads;
    pool.hook()(
        pool.context(),
        [](void* argument, size_t index) {
          auto* c = static_cast<Call*>(argument);
          c->seen[index] += c->number;
        },
        &call, n_tasks);
    for (size_t i = 0; i < kThreads; ++i) ASSERT_EQ(call.seen[i], i < n_tasks ? number : 0);
    if (number % 3000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

// The calling thread takes what no worker has begun: one that the system does not run costs
// nothing.
TEST(ThreadPool, TheCallerTakesTasksToo) {
  ThreadPool pool(2, FewerThreads::kAreRefused);
  bool caller_ran = false;
  struct Call {
    std::thread::id caller;
    bool* caller_ran;
  } call = {std::this_thread::get_id(), &caller_ran};
  const auto end = std::chrono::steady_clock::now() + test::kPatience;
  for (int i = 0; i < 100 || (!caller_ran && std::chrono::steady_clock::now() < end); ++i) {
    pool.hook()(
        pool.context(),
        [](void* argument, size_t) {
          auto* c = static_cast<Call*>(argument);
          if (std::this_thread::get_id() == c->caller) *c->caller_ran = true;
        },
        &call, 2);
  }
  EXPECT_TRUE(caller_ran);
}

// A loop has more tasks than there are threads, and a pool of one thread has no hook.
TEST(ThreadPool, RunsAnyNumberOfTasksOnAnyNumberOfThreads) {
  for (const size_t n_threads : {1U, 2U, 5U}) {
    ThreadPool pool(n_threads, FewerThreads::kAreTaken);
    ASSERT_EQ(pool.n_threads(), n_threads);
    for (const size_t n_tasks : {size_t{0}, size_t{1}, size_t{100}, ThreadPool::kMostTasks}) {
      std::vector<std::atomic<int>> runs(n_tasks);
      pool.run(
          [](void* argument, size_t index) { ++static_cast<std::atomic<int>*>(argument)[index]; },
          runs.data(), n_tasks);
      for (size_t i = 0; i < n_tasks; ++i) ASSERT_EQ(runs[i], 1) << i << " of " << n_tasks;
    }
  }
}

TEST(ThreadPool, OneThreadNeedsNoHook) {
  EXPECT_EQ(ThreadPool(1, FewerThreads::kAreTaken).hook(), nullptr);
  EXPECT_EQ(ThreadPool(1, FewerThreads::kAreTaken).context(), nullptr);
}

}  // namespace
}  // namespace cria::hosted
