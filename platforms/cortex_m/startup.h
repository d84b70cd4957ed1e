// Between startup code, linker script and memory map.
#pragma once

#include <cstdint>

namespace cria::cortex_m {

// What the stack is filled with before main.
inline constexpr uint32_t kStackPaint = 0xc51ac51a;

}  // namespace cria::cortex_m

// Places from the linker script; only their addresses mean something.
extern "C" {
extern const uint32_t firmware_code_begin[];
extern const uint32_t firmware_code_end[];  // after the first values of variables
// Stack and variables.
extern uint32_t firmware_variables_begin[];
extern uint32_t firmware_variables_end[];
extern uint32_t firmware_stack_bottom[];
extern uint32_t firmware_stack_top[];
extern uint32_t firmware_data_begin[];
extern uint32_t firmware_data_end[];
extern const uint32_t firmware_data_image[];
extern uint32_t firmware_bss_begin[];
extern uint32_t firmware_bss_end[];
extern uint8_t firmware_arena_begin[];
extern uint8_t firmware_arena_end[];
extern uint8_t firmware_spare_begin[];
extern uint8_t firmware_spare_end[];
}
