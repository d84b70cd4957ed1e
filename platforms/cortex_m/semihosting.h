// Arm semihosting: what a debugger or an emulator does for firmware. On a board without either,
// these four functions become a serial port, and nothing else of the platform changes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria::cortex_m {

void write_console(const char* text, size_t n_bytes);
// Waits for a byte of input; false when there will be none.
[[nodiscard]] bool read_console(char* c);
// The words that qemu was given after -append; "" when there are none or they do not fit.
void read_command_line(char* line, size_t capacity);
// Ends the program; the emulator exits with this status.
[[noreturn]] void exit_program(uint32_t status);

}  // namespace cria::cortex_m
