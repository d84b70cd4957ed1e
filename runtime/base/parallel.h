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

// The same on parts of part_size, the last one shorter, of which each task takes one after the
// other: where a core is slower than the rest, or busy elsewhere, the others take more.
template <typename Body>
void parallel_parts(const Threads& threads, size_t count, size_t part_size, const Body& body) {
  const size_t n_parts = (count + part_size - 1) / part_size;
  const size_t n_tasks = n_parts < threads.n_tasks ? n_parts : threads.n_tasks;
  if (n_tasks <= 1 || threads.parallel_for == nullptr) {
    if (count != 0) body(size_t{0}, count, size_t{0});
    return;
  }
  struct Job {
    const Body* body;
    size_t count;
    size_t part_size;
    size_t n_parts;
    std::atomic<size_t> n_taken;
  } job = {&body, count, part_size, n_parts, 0};
  threads.parallel_for(
      threads.context,
      [](void* argument, size_t task) {
        Job& j = *static_cast<Job*>(argument);
        for (size_t i = j.n_taken++; i < j.n_parts; i = j.n_taken++) {
          const size_t begin = i * j.part_size;
          const size_t end = begin + j.part_size;
          (*j.body)(begin, end < j.count ? end : j.count, task);
        }
      },
      &job, n_tasks);
}

}  // namespace cria
