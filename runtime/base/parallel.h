// Splits work over the caller's parallel_for hook.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <cria.h>

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

}  // namespace cria
