#include "runtime/base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/support/in_turn.h"
#include "tests/support/patience.h"
#include "tests/support/thread_per_task.h"

namespace cria {
namespace {

using test::in_turn;
using test::thread_per_task;

struct Part {
  size_t begin;
  size_t end;
  size_t task;
};

// What split(body) calls body with, in the order of the calls.
template <class Split>
std::vector<Part> calls_of(const Split& split) {
  std::mutex mutex;
  std::vector<Part> parts;
  split([&](size_t begin, size_t end, size_t task) {
    const std::lock_guard lock(mutex);
    parts.push_back({begin, end, task});
  });
  return parts;
}

std::vector<Part> in_order(std::vector<Part> parts) {
  std::sort(parts.begin(), parts.end(),
            [](const Part& a, const Part& b) { return a.begin < b.begin; });
  return parts;
}

std::vector<Part> parts_of(const Threads& threads, size_t count, size_t part_size) {
  return in_order(calls_of([&](const auto& body) {
    parallel_for(threads, InParts{count, part_size}, body);
  }));
}

std::vector<Part> stretches_of(const Threads& threads, size_t count, size_t n_parts) {
  return calls_of([&](const auto& body) {
    parallel_for(threads, InStretches{count, n_parts}, body);
  });
}

void expect_each_place_once(const std::vector<Part>& ordered, size_t count, uint32_t n_tasks,
                            const char* what, size_t n) {
  size_t at = 0;
  for (const Part& part : ordered) {
    EXPECT_EQ(part.begin, at);
    EXPECT_GT(part.end, part.begin);
    EXPECT_LT(part.task, n_tasks);
    at = part.end;
  }
  EXPECT_EQ(at, count) << n_tasks << " tasks, " << what << n;
}

TEST(ParallelParts, CoverEachPlaceOnce) {
  for (const cria_parallel_for hook : {in_turn, thread_per_task}) {
    for (const uint32_t n_tasks : {2u, 3u, 7u}) {
      for (const size_t part_size : {1u, 2u, 5u, 100u}) {
        for (const size_t count : {0u, 1u, 2u, 9u, 10u, 11u, 64u}) {
          expect_each_place_once(parts_of({n_tasks, hook, nullptr}, count, part_size), count,
                                 n_tasks, "parts of ", part_size);
        }
      }
    }
  }
}

TEST(ParallelParts, HaveTheSizeAskedForButTheLast) {
  const std::vector<Part> parts = parts_of({2, in_turn, nullptr}, 11, 4);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].end, 4u);
  EXPECT_EQ(parts[1].end, 8u);
  EXPECT_EQ(parts[2].end, 11u);
}

TEST(ParallelParts, AreOneWhereOneThreadWorks) {
  for (const Threads& threads : {Threads{1, in_turn, nullptr}, Threads{4, nullptr, nullptr}}) {
    const std::vector<Part> parts = parts_of(threads, 11, 4);
    ASSERT_EQ(parts.size(), 1u);
    EXPECT_EQ(parts[0].end, 11u);
  }
}

// A hook may run a task after all others are done: those have left it nothing.
TEST(ParallelParts, AreTakenByWhoIsThere) {
  const std::vector<Part> parts = parts_of({3, in_turn, nullptr}, 12, 1);
  ASSERT_EQ(parts.size(), 12u);
  for (const Part& part : parts) EXPECT_EQ(part.task, 0u);
}

TEST(ParallelParts, AskForNoMoreTasksThanParts) {
  size_t asked = 0;
  const auto count_tasks = [](void* context, void (*task)(void*, size_t), void* argument,
                              size_t n_tasks) {
    *static_cast<size_t*>(context) = n_tasks;
    in_turn(nullptr, task, argument, n_tasks);
  };
  parts_of({8, count_tasks, &asked}, 10, 4);
  EXPECT_EQ(asked, 3u);
}

// The owner from the front and two others from the end, at the same time.
TEST(StretchLeft, GivesEachPartToOneThread) {
  constexpr size_t kParts = 10000;
  constexpr size_t kThreads = 3;
  for (int round = 0; round < 20; ++round) {
    StretchLeft left;
    left.set(kParts);
    std::vector<size_t> taken[kThreads];
    std::atomic<size_t> n_ready = 0;
    parallel_tasks({kThreads, thread_per_task, nullptr}, kThreads, [&](size_t i) {
      ++n_ready;
      while (n_ready < kThreads) std::this_thread::yield();
      size_t part = 0;
      while (i == 0 ? left.take_first(&part) : left.take_last(&part)) taken[i].push_back(part);
    });
    std::vector<int> counts(kParts);
    for (const std::vector<size_t>& parts : taken) {
      for (const size_t part : parts) ++counts.at(part);
    }
    ASSERT_EQ(std::count(counts.begin(), counts.end(), 1), kParts) << round;
  }
}

TEST(ParallelStretches, CoverEachPlaceOnce) {
  for (const cria_parallel_for hook : {in_turn, thread_per_task}) {
    for (const uint32_t n_tasks : {1u, 2u, 3u, 7u, 16u, 17u, 64u, 65u}) {
      for (const size_t n_parts : {1u, 2u, 5u, 16u}) {
        for (const size_t count : {0u, 1u, 2u, 9u, 64u, 130u}) {
          expect_each_place_once(in_order(stretches_of({n_tasks, hook, nullptr}, count, n_parts)),
                                 count, n_tasks, "parts of a stretch: ", n_parts);
        }
      }
    }
  }
}

// A hook may run a task after all others are done: the first takes its own stretch from the
// beginning, the others' from their ends.
TEST(ParallelStretches, AreTakenByWhoIsThere) {
  std::vector<size_t> begins;
  for (const Part& part : stretches_of({3, in_turn, nullptr}, 12, 4)) {
    EXPECT_EQ(part.task, 0u);
    begins.push_back(part.begin);
  }
  EXPECT_EQ(begins, (std::vector<size_t>{0, 1, 2, 3, 7, 6, 5, 4, 11, 10, 9, 8}));
}

TEST(ParallelStretches, OfATaskThatIsHeldUpAreTakenByAnother) {
  constexpr size_t kCount = 32;
  std::atomic<size_t> n_done = 0;
  std::atomic<size_t> n_of_held_up = 0;
  const auto limit = std::chrono::steady_clock::now() + test::kPatience;
  parallel_for({2, thread_per_task, nullptr}, InStretches{kCount, 16},
               [&](size_t begin, size_t end, size_t task) {
                 if (task == 0) n_of_held_up += end - begin;
                 while (task == 0 && n_done < kCount - (end - begin) &&
                        std::chrono::steady_clock::now() < limit) {
                   std::this_thread::yield();
                 }
                 n_done += end - begin;
               });
  EXPECT_EQ(n_done, kCount);
  EXPECT_LE(n_of_held_up, 1u);
}

}  // namespace
}  // namespace cria
