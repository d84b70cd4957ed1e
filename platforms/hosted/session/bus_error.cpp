#include "platforms/hosted/session/bus_error.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/shown_text.h"

namespace cria::hosted {
namespace {

// A signal's handler can reach only what is static. A slot is written before it is armed.
struct Slot {
  uintptr_t begin;
  uintptr_t end;
  char line[512];  // what is said
  std::atomic<int> state;
};
constexpr size_t kSlots = 4;
constexpr int kFree = 0;
constexpr int kTaken = 1;
constexpr int kArmed = 2;
Slot slots[kSlots];
static_assert(std::atomic<int>::is_always_lock_free, "used in a signal handler");

void on_bus_error(int signal_number, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const Slot& slot : slots) {
    const bool is_fault = info->si_code > 0;  // not sent by a process
    if (!is_fault || slot.state.load() != kArmed || at < slot.begin || at >= slot.end) continue;
    remove_temporary_files();
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, slot.line, std::strlen(slot.line));
    ::_exit(static_cast<int>(ExitCode::kIo));
  }
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

// The line for a file, its path cut at the front where it is too long.
void put_line(const std::string& path, char (&line)[sizeof(Slot::line)]) {
  const std::string begin = "cria: error: ";
  const std::string end =
      ": became shorter while it was in use, or cannot be read any more; copy it again\n";
  std::string name = printable(path);
  const size_t most = sizeof(line) - 1 - begin.size() - end.size();
  if (name.size() > most) name = "..." + name.substr(name.size() - most + 3);
  const std::string text = begin + name + end;
  std::memcpy(line, text.c_str(), text.size() + 1);
}

}  // namespace

void install_bus_error_handler() {
  struct sigaction action = {};
  action.sa_sigaction = &on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
}

GuardedMapping::GuardedMapping(const void* base, size_t n_bytes, const std::string& path)
    : slot_(0) {
  for (; slot_ < kSlots; ++slot_) {
    int expected = kFree;
    if (slots[slot_].state.compare_exchange_strong(expected, kTaken)) break;
  }
  if (slot_ == kSlots) return;
  Slot& slot = slots[slot_];
  slot.begin = reinterpret_cast<uintptr_t>(base);
  slot.end = slot.begin + n_bytes;
  put_line(path, slot.line);
  slot.state.store(kArmed);
}

GuardedMapping::~GuardedMapping() {
  if (slot_ < kSlots) slots[slot_].state.store(kFree);
}

}  // namespace cria::hosted
