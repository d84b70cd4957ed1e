// From reset to main: the vector table, the floating-point unit, the memory of variables, the
// stack's paint.
#include "platforms/cortex_m/startup.h"

#include <cstddef>

#include "platforms/cortex_m/console.h"
#include "platforms/cortex_m/semihosting.h"

// C++ forbids to call main by its name.
extern "C" int program_main() asm("main");

namespace cria::cortex_m {
namespace {

constexpr uint32_t kCoprocessorAccess = 0xe000ed88;  // CPACR
constexpr uint32_t kFullAccessToFpu = 0xf << 20;     // coprocessors 10 and 11: FPU and Helium
// What the painter's own frames may take below the pointer it sees.
constexpr size_t kPainterWords = 64;

void enable_fpu() {
  *reinterpret_cast<volatile uint32_t*>(kCoprocessorAccess) |= kFullAccessToFpu;
  asm volatile("dsb\n\tisb" ::: "memory");
}

void fill_variables() {
  const uint32_t* from = firmware_data_image;
  for (uint32_t* to = firmware_data_begin; to < firmware_data_end; ++to) *to = *from++;
  for (uint32_t* to = firmware_bss_begin; to < firmware_bss_end; ++to) *to = 0;
}

void paint_stack() {
  const uint32_t* here = nullptr;
  asm volatile("mov %0, sp" : "=r"(here));
  for (uint32_t* p = firmware_stack_bottom; p < here - kPainterWords; ++p) *p = kStackPaint;
}

// An overflow of the stack becomes a fault instead of damage.
#if __ARM_ARCH >= 8
void limit_stack() { asm volatile("msr msplim, %0" ::"r"(firmware_stack_bottom)); }
#else
// There is no limit register. The stack lies at the low end of RAM (boards/sections.ld), and what
// is below does not answer.
void limit_stack() {}
#endif

void stop_at_fault() { fail("a processor fault (bad address or instruction, stack overflow)"); }

}  // namespace
}  // namespace cria::cortex_m

extern "C" [[noreturn]] void firmware_reset() {
  using namespace cria::cortex_m;
  enable_fpu();
  limit_stack();
  paint_stack();
  fill_variables();
  exit_program(static_cast<uint32_t>(program_main()));
}

// After a stack overflow the handler needs a stack: it takes the whole one anew.
extern "C" [[gnu::naked, gnu::used]] void firmware_fault() {
  asm volatile(
      "ldr r0, =firmware_stack_top\n\t"
      "msr msp, r0\n\t"
      "b %c0" ::"i"(cria::cortex_m::stop_at_fault));
}

namespace {

constexpr size_t kSystemVectors = 14;  // after the stack and reset; interrupts stay off

struct VectorTable {
  uint32_t* stack;
  void (*reset)();
  void (*system[kSystemVectors])();
};

[[gnu::section(".vectors"), gnu::used]] const VectorTable kVectors = {
    firmware_stack_top,
    firmware_reset,
    {firmware_fault, firmware_fault, firmware_fault, firmware_fault, firmware_fault, firmware_fault,
     nullptr, nullptr, nullptr, firmware_fault, firmware_fault, nullptr, firmware_fault,
     firmware_fault}};

}  // namespace
