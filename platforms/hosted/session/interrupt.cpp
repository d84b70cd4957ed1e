#include "platforms/hosted/session/interrupt.h"

#include <poll.h>
#include <signal.h>

#include <cerrno>

#include "platforms/hosted/base/output_file.h"
#include "platforms/hosted/session/bus_error.h"

namespace cria::hosted {
namespace {

// The one mutable global: a signal handler has no other way to leave a message.
volatile sig_atomic_t interrupt_flag = 0;

void on_interrupt(int) { interrupt_flag = 1; }

void set_handler(int signal_number, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(signal_number, &action, nullptr);
}

}  // namespace

void install_program_signals() {
  remove_temporary_files_on_signals();
  install_bus_error_handler();
}

InterruptGuard::InterruptGuard(SecondInterrupt second) {
  clear_interrupt();
  ::sigaction(SIGINT, nullptr, &before_);
  set_handler(SIGINT, &on_interrupt,
              second == SecondInterrupt::kEndsProgram ? static_cast<int>(SA_RESETHAND) : 0);
}

InterruptGuard::~InterruptGuard() { ::sigaction(SIGINT, &before_, nullptr); }

bool interrupted() { return interrupt_flag != 0; }

void clear_interrupt() { interrupt_flag = 0; }

InputWait wait_for_input(int descriptor) {
  sigset_t blocked;
  sigset_t before;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGINT);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  pollfd waiting = {.fd = descriptor, .events = POLLIN, .revents = 0};
  // SIGINT is let in only inside ppoll, so it cannot come between the look at the flag and the
  // wait.
  while (!interrupted() && ::ppoll(&waiting, 1, nullptr, &before) < 0 && errno == EINTR) {
  }
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return interrupted() ? InputWait::kInterrupted : InputWait::kReady;
}

}  // namespace cria::hosted
