#include "platforms/hosted/base/thread_pool.h"

#include <system_error>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/program_error.h"

namespace cria::hosted {
namespace {

constexpr int kNextShift = 16;
constexpr int kCallShift = 32;
constexpr uint64_t kMask = ThreadPool::kMostTasks;
constexpr uint64_t kOneClaim = uint64_t{1} << kNextShift;
// Some tens of microseconds: longer than the serial work between two calls of a forward pass,
// shorter than what a sleeping thread of a busy machine would miss.
constexpr int kSpins = 2000;

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ __volatile__("yield");
#endif
}

}  // namespace

ThreadPool::ThreadPool(size_t n_threads, FewerThreads fewer) {
  if (n_threads <= 1) return;
  try {
    workers_.reserve(n_threads - 1);
    while (workers_.size() + 1 < n_threads) workers_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    if (fewer == FewerThreads::kAreRefused) {
      stop();
      throw ProgramError(
          ExitCode::kMemory,
          text_of("cannot start %zu threads; lower --threads, or raise ulimit -u or -v",
                  n_threads));
    }
  }
  // What the system allocates to start a thread is allocated now, not in the first calls.
  for (uint32_t n = n_started_.load(std::memory_order_acquire); n != workers_.size();
       n = n_started_.load(std::memory_order_acquire)) {
    n_started_.wait(n, std::memory_order_acquire);
  }
}

ThreadPool::~ThreadPool() { stop(); }

void ThreadPool::stop() {
  stopping_.store(true, std::memory_order_relaxed);
  const uint32_t call = sleeping_call_.load(std::memory_order_relaxed) + 1;
  claims_.store(uint64_t{call} << kCallShift, std::memory_order_release);
  sleeping_call_.store(call, std::memory_order_release);
  sleeping_call_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

ThreadPool::Hook ThreadPool::hook() const {
  if (workers_.empty()) return nullptr;
  return [](void* context, Task task, void* argument, size_t n_tasks) {
    static_cast<ThreadPool*>(context)->run(task, argument, n_tasks);
  };
}

// Nobody reads task_ without a claim, and the claims of a call are done before it returns.
void ThreadPool::run(Task task, void* argument, size_t n_tasks) {
  if (n_tasks == 0) return;
  if (n_tasks == 1) return task(argument, 0);
  task_ = task;
  argument_ = argument;
  n_done_.store(0, std::memory_order_relaxed);
  const uint32_t call = sleeping_call_.load(std::memory_order_relaxed) + 1;
  claims_.store(uint64_t{call} << kCallShift | n_tasks, std::memory_order_release);
  sleeping_call_.store(call, std::memory_order_release);
  sleeping_call_.notify_all();
  while (run_one(call)) {
  }
  wait_until_done(static_cast<uint32_t>(n_tasks));
}

void ThreadPool::wait_until_done(uint32_t n_tasks) {
  uint32_t n_done = n_done_.load(std::memory_order_acquire);
  for (int i = 0; n_done != n_tasks; n_done = n_done_.load(std::memory_order_acquire)) {
    if (i < kSpins) {
      ++i;
      relax();
    } else {
      n_done_.wait(n_done, std::memory_order_acquire);
    }
  }
}

// Claims and runs a task of this call; false when none is left.
bool ThreadPool::run_one(uint32_t call) {
  uint64_t claims = claims_.load(std::memory_order_acquire);
  for (;;) {
    const uint64_t next = claims >> kNextShift & kMask;
    const uint64_t n_tasks = claims & kMask;
    if (claims >> kCallShift != call || next >= n_tasks) return false;
    if (claims_.compare_exchange_weak(claims, claims + kOneClaim, std::memory_order_acq_rel,
                                      std::memory_order_acquire)) {
      task_(argument_, static_cast<size_t>(next));
      if (n_done_.fetch_add(1, std::memory_order_acq_rel) + 1 == n_tasks) n_done_.notify_one();
      return true;
    }
  }
}

// The number of a call other than the last one.
uint32_t ThreadPool::wait_for_call(uint32_t last) {
  for (int i = 0; i < kSpins; ++i) {
    const auto call = static_cast<uint32_t>(claims_.load(std::memory_order_acquire) >> kCallShift);
    if (call != last) return call;
    relax();
  }
  sleeping_call_.wait(last, std::memory_order_acquire);
  return sleeping_call_.load(std::memory_order_acquire);
}

void ThreadPool::work() {
  n_started_.fetch_add(1, std::memory_order_release);
  n_started_.notify_one();
  uint32_t call = 0;
  for (;;) {
    call = wait_for_call(call);
    if (stopping_.load(std::memory_order_relaxed)) return;
    while (run_one(call)) {
    }
  }
}

}  // namespace cria::hosted
