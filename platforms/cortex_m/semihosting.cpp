#include "platforms/cortex_m/semihosting.h"

#include <string_view>

namespace cria::cortex_m {
namespace {

enum Operation : uint32_t {
  kOpen = 0x01,
  kWrite = 0x05,
  kRead = 0x06,
  kGetCommandLine = 0x15,
  kExitExtended = 0x20,
};
constexpr uint32_t kOpenForReading = 0;
constexpr uint32_t kOpenForWriting = 4;
constexpr uint32_t kApplicationExit = 0x20026;
constexpr uint32_t kFailed = 0xffffffff;

uint32_t call(Operation operation, const void* argument) {
  register uint32_t r0 asm("r0") = operation;
  register const void* r1 asm("r1") = argument;
  asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

uint32_t address(const void* p) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(p)); }

// ":tt" is the console's name. qemu 7.2 loses bytes when the console is read, so input is taken
// from the file of this name; behind a debugger it is ":tt" as well.
constexpr std::string_view kOutputName = ":tt";
constexpr std::string_view kInputName = "/dev/stdin";

uint32_t open_file(std::string_view name, uint32_t mode) {
  const uint32_t block[] = {address(name.data()), mode, static_cast<uint32_t>(name.size())};
  return call(kOpen, block);
}

}  // namespace

void write_console(const char* text, size_t n_bytes) {
  static uint32_t handle = kFailed;
  if (handle == kFailed) handle = open_file(kOutputName, kOpenForWriting);
  const uint32_t block[] = {handle, address(text), static_cast<uint32_t>(n_bytes)};
  static_cast<void>(call(kWrite, block));
}

bool read_console(char* c) {
  static uint32_t handle = kFailed;
  if (handle == kFailed) handle = open_file(kInputName, kOpenForReading);
  const uint32_t block[] = {handle, address(c), 1};
  return call(kRead, block) == 0;  // the number of bytes it did not read
}

void read_command_line(char* line, size_t capacity) {
  const uint32_t block[] = {address(line), static_cast<uint32_t>(capacity)};
  line[0] = '\0';
  if (call(kGetCommandLine, block) != 0) line[0] = '\0';
}

void exit_program(uint32_t status) {
  const uint32_t block[] = {kApplicationExit, status};
  static_cast<void>(call(kExitExtended, block));
  for (;;) {
  }
}

}  // namespace cria::cortex_m
