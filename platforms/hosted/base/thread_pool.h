// Threads that share the tasks of a call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace cria::hosted {

// What a pool does when the system starts fewer threads than it was asked for.
enum class FewerThreads { kAreRefused, kAreTaken };

// n_threads workers, the calling thread among them; one thread needs no pool. Tasks are claimed one
// by one, in ascending order, by the caller too: a worker that the system does not run holds up
// nothing. Waiting spins shortly, then sleeps. One call at a time. Joined by the destructor.
class ThreadPool {
 public:
  using Task = void (*)(void* argument, size_t index);
  // A call of context's pool, as a library that knows no pool takes it.
  using Hook = void (*)(void* context, Task task, void* argument, size_t n_tasks);
  static constexpr size_t kMostTasks = 0xffff;

  // kAreRefused: throws ProgramError kMemory.
  ThreadPool(size_t n_threads, FewerThreads fewer);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  [[nodiscard]] size_t n_threads() const { return workers_.size() + 1; }

  // Calls task once for every index below n_tasks (at most kMostTasks); returns when all are done.
  // Allocates nothing. task throws nothing (platforms/hosted/base/shared_loop.h may).
  void run(Task task, void* argument, size_t n_tasks);

  // run, and its first argument; both null for one thread.
  Hook hook() const;
  void* context() { return workers_.empty() ? nullptr : this; }

 private:
  void work();
  bool run_one(uint32_t call);
  uint32_t wait_for_call(uint32_t last);
  void wait_until_done(uint32_t n_tasks);
  void stop();

  // One cache line brings a worker all it needs to start. The task is written before the call is
  // published in claims_, and read by those who have claimed a part of it.
  //
  // claims_: the call's number, the next task and the number of tasks: 32, 16 and 16 bits. A claim
  // adds one to the next task if the number is still that of the call the worker means.
  alignas(64) std::atomic<uint64_t> claims_ = 0;
  Task task_ = nullptr;
  void* argument_ = nullptr;
  alignas(64) std::atomic<uint32_t> n_done_ = 0;
  alignas(64) std::atomic<uint32_t> sleeping_call_ = 0;  // the call's number, for those who sleep
  std::atomic<uint32_t> n_started_ = 0;
  std::atomic<bool> stopping_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace cria::hosted
