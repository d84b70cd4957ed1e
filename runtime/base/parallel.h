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
  cria_parallel_for parallel_for;  // null: only the calling thread
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

// How parallel_for splits [0, count).

// At most one part a task; parts differ in length by one at most.
struct Even {
  size_t count;
};

// Parts of part_size, the last one shorter, of which each task takes one after the other: where a
// core is slower than the rest, or busy elsewhere, the others take more.
struct InParts {
  size_t count;
  size_t part_size;
};

// A stretch for each task, of n_parts parts that differ in length by one at most. A task takes the
// parts of its own one after the other, and then the last ones of others': memory is read in long
// streams, and a core that is slower, or busy elsewhere, holds up the others by at most a part.
struct InStretches {
  size_t count;
  size_t n_parts;  // 1 to StretchLeft::kMostParts
};

// Calls body(begin, end, task) on parts of [0, count). Which thread runs a part never changes a
// result: parts write disjoint outputs and no sum crosses them.
template <typename Body>
void parallel_for(const Threads& threads, Even split, const Body& body) {
  if (split.count == 0) return;
  const size_t n_tasks = task_count(threads, split.count);
  if (n_tasks <= 1) return body(size_t{0}, split.count, size_t{0});
  parallel_tasks(threads, n_tasks, [&](size_t task) {
    const Range r = split_range(split.count, n_tasks, task);
    body(r.begin, r.end, task);
  });
}

template <typename Body>
void parallel_for(const Threads& threads, InParts split, const Body& body) {
  const auto [count, part_size] = split;
  if (count == 0) return;
  const size_t n_parts = (count + part_size - 1) / part_size;
  const size_t n_tasks = task_count(threads, n_parts);
  if (n_tasks <= 1) return body(size_t{0}, count, size_t{0});
  std::atomic<size_t> n_taken = 0;
  parallel_tasks(threads, n_tasks, [&](size_t task) {
    for (size_t i = n_taken++; i < n_parts; i = n_taken++) {
      const size_t begin = i * split.part_size;
      const size_t end = begin + split.part_size;
      body(begin, end < split.count ? end : split.count, task);
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

  // Only the claim is shared: who waits for the tasks sees what they wrote.
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

// The work of InStretches. Not inlined, because of its frame.
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

// More tasks than kMostStretches have a part each, as with Even.
template <typename Body>
void parallel_for(const Threads& threads, InStretches split, const Body& body) {
  CRIA_ASSERT(split.n_parts >= 1 && split.n_parts <= StretchLeft::kMostParts);
  if (split.count == 0) return;
  const size_t n_tasks = task_count(threads, split.count);
  if (n_tasks <= 1) return body(size_t{0}, split.count, size_t{0});
  if (n_tasks > kMostStretches) return parallel_for(threads, Even{split.count}, body);
  share_stretches(threads, split.count, n_tasks, split.n_parts, body);
}

}  // namespace cria
