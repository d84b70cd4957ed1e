// Ctrl-C as a flag, and the other signals a command-line program meets.
#pragma once

#include <signal.h>

namespace cria::hosted {

// Those of remove_temporary_files_on_signals and of platforms/hosted/session/bus_error.h.
void install_program_signals();

// What a second Ctrl-C does while the first has not been looked at.
enum class SecondInterrupt { kEndsProgram, kIsTheSame };

// While an object lives SIGINT only sets the flag; before and after it does what it did before.
// Calls that wait are not restarted. One at a time.
class InterruptGuard {
 public:
  explicit InterruptGuard(SecondInterrupt second);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_;
};

bool interrupted();
void clear_interrupt();

enum class InputWait { kReady, kInterrupted };

// Waits until descriptor can be read or the flag is set; a SIGINT at any moment since the flag was
// cleared ends the wait. Needs an InterruptGuard.
InputWait wait_for_input(int descriptor);

}  // namespace cria::hosted
