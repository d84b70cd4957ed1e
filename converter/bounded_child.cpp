#include "converter/bounded_child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <new>

#include "converter/error.h"
#include "platforms/hosted/base/system_error.h"

namespace cria::converter {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif
#else
constexpr bool kIsSanitized = false;
#endif
// A sanitizer's shadow memory is larger than any limit, and what it checks takes its time.
constexpr bool kLimitsMemory = !kIsSanitized;
constexpr unsigned kSlowdown = kIsSanitized ? 4 : 1;

[[noreturn]] void fail(const char* what) {
  const int error = errno;
  // Only of fork.
  const char* const advice = error == EAGAIN ? "; end some processes, or raise ulimit -u" : "";
  throw ProgramError(ExitCode::kIo, std::string("cannot ") + what + ": " +
                                        hosted::system_error_text(error) + advice);
}

// Address space in use, mapped files and all; 0 where the system does not tell.
uint64_t used_bytes() {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  unsigned long long pages = 0;
  const int n = std::fscanf(file, "%llu", &pages);
  std::fclose(file);
  return n == 1 ? pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

void set_limit(decltype(RLIMIT_CPU) what, uint64_t value) {
  struct rlimit limit = {};
  if (getrlimit(what, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(static_cast<rlim_t>(value), limit.rlim_max);
  limit.rlim_max = limit.rlim_cur;
  static_cast<void>(setrlimit(what, &limit));
}

void write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) _exit(1);
    at += static_cast<size_t>(n);
  }
}

[[noreturn]] void be_the_child(const std::function<std::string()>& work, const ChildLimits& limits,
                               int out) {
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_CPU, kSlowdown * limits.seconds);
  const uint64_t used = used_bytes();
  if (kLimitsMemory && used > 0) set_limit(RLIMIT_AS, used + limits.memory_bytes);
  // The program's own would print an error's line for what is only a template left out.
  std::set_new_handler(nullptr);
  try {
    write_all(out, work());
  } catch (...) {
    _exit(1);
  }
  _exit(0);
}

// Everything up to the end of the pipe; nullopt where it is too much or takes too long.
std::optional<std::string> read_all(int fd, const ChildLimits& limits) {
  using Clock = std::chrono::steady_clock;
  const auto deadline =
      Clock::now() + std::chrono::seconds(kSlowdown * kClockSeconds * limits.seconds);
  std::string text;
  std::array<char, 1 << 14> buffer = {};
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    struct pollfd waited = {fd, POLLIN, 0};
    const int ready = poll(&waited, 1, static_cast<int>(left));
    if (ready < 0 && errno != EINTR) return std::nullopt;
    if (ready <= 0) continue;
    const ssize_t n = read(fd, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return std::nullopt;
    if (n == 0) return text;
    if (static_cast<size_t>(n) > limits.result_bytes - text.size()) return std::nullopt;
    text.append(buffer.data(), static_cast<size_t>(n));
  }
}

}  // namespace

std::optional<std::string> run_bounded(const std::function<std::string()>& work,
                                       const ChildLimits& limits) {
  std::array<int, 2> ends = {};
  if (pipe(ends.data()) != 0) fail("make a pipe");
  const pid_t child = fork();
  if (child < 0) {
    const int reason = errno;
    close(ends[0]);
    close(ends[1]);
    errno = reason;
    fail("make a process");
  }
  if (child == 0) {
    close(ends[0]);
    be_the_child(work, limits, ends[1]);
  }
  close(ends[1]);
  std::optional<std::string> result = read_all(ends[0], limits);
  close(ends[0]);
  if (!result) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const bool is_done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return is_done ? result : std::nullopt;
}

}  // namespace cria::converter
