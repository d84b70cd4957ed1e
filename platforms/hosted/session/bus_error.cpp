#include "platforms/hosted/session/bus_error.h"

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/base/program_error.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/base/signal_slots.h"
#include "platforms/hosted/base/terminal.h"

namespace cria::hosted {
namespace {

struct Mapping {
  uintptr_t begin;
  uintptr_t end;
  char line[512];  // what is said
};
SignalSlots<Mapping> mappings;

void on_bus_error(int signal_number, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool is_fault = info->si_code > 0;  // not sent by a process
  mappings.look_at_each([=](const Mapping& mapping) {
    if (!is_fault || at < mapping.begin || at >= mapping.end) return;
    remove_temporary_files();
    // Not where nobody reads: the write would never return.
    [[maybe_unused]] const ssize_t written =
        has_room(STDERR_FILENO) ? ::write(STDERR_FILENO, mapping.line, std::strlen(mapping.line))
                                : 0;
    ::_exit(static_cast<int>(ExitCode::kIo));
  });
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

// The line for a file, its path cut at the front where it is too long.
void put_line(const std::string& path, char (&line)[sizeof(Mapping::line)]) {
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
    : slot_(mappings.arm([&](Mapping* mapping) {
        mapping->begin = reinterpret_cast<uintptr_t>(base);
        mapping->end = mapping->begin + n_bytes;
        put_line(path, mapping->line);
      })) {}

GuardedMapping::~GuardedMapping() { mappings.free(slot_); }

}  // namespace cria::hosted
