#include "platforms/cortex_m/memory_map.h"

#include "platforms/cortex_m/startup.h"

namespace cria::cortex_m {

std::span<uint8_t> arena() { return {firmware_arena_begin, firmware_arena_end}; }

std::span<uint8_t> spare_memory() { return {firmware_spare_begin, firmware_spare_end}; }

size_t stack_high_water() {
  const uint32_t* deepest = firmware_stack_bottom;
  while (deepest < firmware_stack_top && *deepest == kStackPaint) ++deepest;
  return static_cast<size_t>(firmware_stack_top - deepest) * sizeof *deepest;
}

size_t stack_bytes() {
  return static_cast<size_t>(firmware_stack_top - firmware_stack_bottom) *
         sizeof *firmware_stack_top;
}

}  // namespace cria::cortex_m
