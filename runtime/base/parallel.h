// Splits work over the caller's parallel_for hook.
#pragma once

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

// Calls body(begin, end, task) on parts of [0, count), at most one part a task. Which thread
// runs a part never changes a result: parts write disjoint outputs and no sum crosses them.
template <typename Body>
void parallel_ranges(const Threads& threads, size_t count, const Body& body) {
  const size_t n_tasks = count < threads.n_tasks ? count : threads.n_tasks;
  if (n_tasks <= 1 || threads.parallel_for == nullptr) {
    if (count != 0) body(size_t{0}, count, size_t{0});
    return;
  }
  struct Job {
    const Body* body;
    size_t count;
    size_t n_tasks;
  } job = {&body, count, n_tasks};
  threads.parallel_for(
      threads.context,
      [](void* argument, size_t i) {
        const Job& j = *static_cast<const Job*>(argument);
        const Range r = split_range(j.count, j.n_tasks, i);
        (*j.body)(r.begin, r.end, i);
      },
      &job, n_tasks);
}

}  // namespace cria
