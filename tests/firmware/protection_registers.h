// Registers of the memory protection unit that both architectures have.
#pragma once

#include <cstdint>

namespace cria::firmware_test {

inline constexpr uintptr_t kRegionNumber = 0xe000ed98;
inline constexpr uintptr_t kRegionBase = 0xe000ed9c;

inline volatile uint32_t& reg(uintptr_t address) {
  return *reinterpret_cast<volatile uint32_t*>(address);
}

}  // namespace cria::firmware_test
