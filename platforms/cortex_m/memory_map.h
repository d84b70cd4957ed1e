// What the linker script gives the program, and how much of the stack was ever used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cria::cortex_m {

// The session's memory, 64-byte aligned.
[[nodiscard]] std::span<uint8_t> arena();
// Memory of the board that nothing else uses, 64-byte aligned.
[[nodiscard]] std::span<uint8_t> spare_memory();

// Bytes between the top of the stack and the deepest place that was ever written.
[[nodiscard]] size_t stack_high_water();
[[nodiscard]] size_t stack_bytes();

}  // namespace cria::cortex_m
