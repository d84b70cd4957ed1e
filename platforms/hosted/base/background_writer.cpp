#include "platforms/hosted/base/background_writer.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <limits>
#include <mutex>
#include <string>
#include <thread>

#include "platforms/hosted/base/clock.h"

namespace cria::hosted {
namespace {

constexpr size_t kNoteBytes = 96;

}  // namespace

struct BackgroundWriter::Shared {
  Shared(int its_descriptor, size_t most_bytes) : descriptor(its_descriptor), n_most(most_bytes) {
    waiting.reserve(n_most);
    taken.reserve(n_most);
  }

  void run();
  void write_out(std::string_view text);
  bool wait_for_room();

  const int descriptor;
  const size_t n_most;
  std::string taken;  // by the thread
  std::mutex mutex;   // of all that follows
  std::condition_variable changed;
  std::string waiting;
  uint64_t n_dropped = 0;
  uint64_t n_dropped_untold = 0;
  bool is_over = false;
  bool has_ended = false;
  int64_t deadline_ms = std::numeric_limits<int64_t>::max();
};

void BackgroundWriter::Shared::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return is_over || !waiting.empty(); });
    if (waiting.empty()) break;
    taken.swap(waiting);
    const uint64_t n_untold = n_dropped_untold;
    n_dropped_untold = 0;
    lock.unlock();
    write_out(taken);
    if (n_untold > 0) {
      std::array<char, kNoteBytes> note = {};  // taken without memory
      std::snprintf(note.data(), note.size(),
                    "cria: %llu lines were dropped here, as nobody read them\n",
                    static_cast<unsigned long long>(n_untold));
      write_out(note.data());
    }
    taken.clear();
    lock.lock();
  }
  has_ended = true;
  changed.notify_all();
}

// False: there will be none.
bool BackgroundWriter::Shared::wait_for_room() {
  constexpr int kPauseMs = 50;
  for (;;) {
    {
      const std::lock_guard lock(mutex);
      if (monotonic_ms() >= deadline_ms) return false;
    }
    pollfd waits = {.fd = descriptor, .events = POLLOUT, .revents = 0};
    const int n = ::poll(&waits, 1, kPauseMs);
    if (n > 0 || (n < 0 && errno != EINTR)) return true;
  }
}

// A part that a pipe with room takes whole. What cannot be written is nobody's business.
void BackgroundWriter::Shared::write_out(std::string_view text) {
  constexpr size_t kPartBytes = 4096;
  while (!text.empty() && wait_for_room()) {
    const ssize_t n = ::write(descriptor, text.data(), std::min(text.size(), kPartBytes));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<size_t>(n));
  }
}

BackgroundWriter::BackgroundWriter(int descriptor, size_t most_bytes)
    : shared_(std::make_shared<Shared>(descriptor, most_bytes)) {
  std::thread([shared = shared_] { shared->run(); }).detach();
}

BackgroundWriter::~BackgroundWriter() {
  std::unique_lock lock(shared_->mutex);
  shared_->is_over = true;
  shared_->deadline_ms = monotonic_ms() + kPatienceMs;
  shared_->changed.notify_all();
  // Others may have filled the pipe between its room and the write, which then hangs for good.
  shared_->changed.wait_for(lock, std::chrono::milliseconds(2 * kPatienceMs),
                            [this] { return shared_->has_ended; });
}

void BackgroundWriter::put(std::string_view lines) {
  const std::lock_guard lock(shared_->mutex);
  if (lines.size() <= shared_->n_most - std::min(shared_->n_most, shared_->waiting.size())) {
    shared_->waiting += lines;
    shared_->changed.notify_all();
    return;
  }
  const auto n_lines = std::max<ptrdiff_t>(std::count(lines.begin(), lines.end(), '\n'), 1);
  shared_->n_dropped += static_cast<uint64_t>(n_lines);
  shared_->n_dropped_untold += static_cast<uint64_t>(n_lines);
}

uint64_t BackgroundWriter::n_dropped() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->n_dropped;
}

}  // namespace cria::hosted
