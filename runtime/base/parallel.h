// Splits work over the caller's parallel_for hook.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <cria.h>

#include "runtime/base/assert.h"

namespace cria {

// Who works: the calling thread, or up to n_tasks of the hook's.
struct Threads {
  uint32_t n_tasks;                // >= 1
  cria_parallel_for parallel_for;  // null: the calling thread alone
  void* context;
};

// Part i of n of [0, count).
struct Range {
  size_t begin;
  size_t end;
};
[[nodiscard]] constexpr Range split_range(size_t count, size_t n, size_t i) {
  return {count / n * i + (i < count % n ? i : count % n),
          count / n * (i + 1) + (i + 1 < count % n ? i + 1 : count % n)};
}

// How many tasks n pieces of work are for.
[[nodiscard]] inline size_t task_count(const Threads& threads, size_t n) {
  const size_t most = threads.parallel_for == nullptr ? 1 : threads.n_tasks;
  return n < most ? n : most;
}

// Calls body(task) for each task below n_tasks, of which there are more than one.
template <typename Body>
void parallel_tasks(const Threads& threads, size_t n_tasks, const Body& body) {
  const Body* pointer = &body;
  threads.parallel_for(
      threads.context,
      [](void* argument, size_t task) { (**static_cast<const Body**>(argument))(task); }, &pointer,
      n_tasks);
}

// Calls body(begin, end, task) on parts of [0, count), at most one part a task. Which thread
// runs a part never changes a result: parts write disjoint outputs and no sum crosses them.
template <typename Body>
void parallel_ranges(const Threads& threads, size_t count, const Body& body) {
  if (count == 0) return;
  const size_t n_tasks = task_count(threads, count);
  if (n_tasks <= 1) return body(size_t{0}, count, size_t{0});
  parallel_tasks(threads, n_tasks, [&](size_t task) {
    const Range r = split_range(count, n_tasks, task);
    body(r.begin, r.end, task);
  });
}

// The same on parts of part_size, the last one shorter, of which each task takes one after the
// other: where a core is slower than the rest, or busy elsewhere, the others take more.
template <typename Body>
void parallel_parts(const Threads& threads, size_t count, size_t part_size, const Body& body) {
  if (count == 0) return;
  const size_t n_parts = (count + part_size - 1) / part_size;
  const size_t n_tasks = task_count(threads, n_parts);
  if (n_tasks <= 1) return body(size_t{0}, count, size_t{0});
  std::atomic<size_t> n_taken = 0;
  parallel_tasks(threads, n_tasks, [&](size_t task) {
    for (size_t i = n_taken++; i < n_parts; i = n_taken++) {
      const size_t begin = i * part_size;
      const size_t end = begin + part_size;
      body(begin, end < count ? end : count, task);
    }
  });
}

// What is left of a task's stretch: parts [first, end). Each on a cache line of its own.
class alignas(64) StretchLeft {
 public:
  static constexpr size_t kMostParts = 0xffff;

  void set(size_t n_parts) {
    left_.store(static_cast<uint32_t>(n_parts) << kEndShift, std::memory_order_relaxed);
  }
  bool take_first(size_t* part) { return take(true, part); }
  bool take_last(size_t* part) { return take(false, part); }

 private:
  static constexpr int kEndShift = 16;

  // The claim alone is shared: who waits for the tasks sees what they wrote.
  bool take(bool is_first, size_t* part) {
    uint32_t left = left_.load(std::memory_order_relaxed);
    for (;;) {
      const uint32_t first = left & kMostParts;
      const uint32_t end = left >> kEndShift;
      if (first >= end) return false;
      *part = is_first ? first : end - 1;
      const uint32_t next = is_first ? left + 1 : left - (uint32_t{1} << kEndShift);
      if (left_.compare_exchange_weak(left, next, std::memory_order_relaxed)) return true;
    }
  }

  std::atomic<uint32_t> left_;
};

// What is kept of each is on the caller's stack.
inline constexpr size_t kMostStretches = 16;

// Calls body(begin, end, task) on parts of [0, count). Each task has a stretch of n_parts parts
// that differ in length by one at most. A task takes the parts of its own one after the other, and
// then the last ones of others': memory is read in long streams, and a core that is slower, or busy
// elsewhere, holds up the others by no more than a part. Not inlined, because of its frame.
template <typename Body>
[[gnu::noinline]] void share_stretches(const Threads& threads, size_t count, size_t n_tasks,
                                       size_t n_parts, const Body& body) {
  StretchLeft left[kMostStretches];
  for (size_t i = 0; i < n_tasks; ++i) left[i].set(n_parts);
  parallel_tasks(threads, n_tasks, [&](size_t task) {
    const auto run = [&](size_t stretch, size_t part) {
      const Range all = split_range(count, n_tasks, stretch);
      const Range some = split_range(all.end - all.begin, n_parts, part);
      if (some.begin < some.end) body(all.begin + some.begin, all.begin + some.end, task);
    };
    size_t part = 0;
    while (left[task].take_first(&part)) run(task, part);
    for (size_t i = 1; i < n_tasks; ++i) {
      const size_t other = (task + i) % n_tasks;
      while (left[other].take_last(&part)) run(other, part);
    }
  });
}

// 1 <= n_parts <= StretchLeft::kMostParts. More tasks than kMostStretches have a part each, as in
// parallel_ranges.
template <typename Body>
void parallel_stretches(const Threads& threads, size_t count, size_t n_parts, const Body& body) {
  CRIA_ASSERT(n_parts >= 1 && n_parts <= StretchLeft::kMostParts);
  if (count == 0) return;
  const size_t n_tasks = task_count(threads, count);
  if (n_tasks <= 1) return body(size_t{0}, count, size_t{0});
  if (n_tasks > kMostStretches) return parallel_ranges(threads, count, body);
  share_stretches(threads, count, n_tasks, n_parts, body);
}

}  // namespace cria
