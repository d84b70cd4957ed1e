// What is alike in both architectures.
#include "tests/firmware/protection_unit.h"

#include "tests/firmware/protection_registers.h"

namespace cria::firmware_test {
namespace {

constexpr uintptr_t kType = 0xe000ed90;
constexpr uintptr_t kControl = 0xe000ed94;
constexpr uint32_t kEnable = 1;  // without a background region
constexpr unsigned kTypeRegionsShift = 8;
constexpr uint32_t kTypeRegionsMask = 0xff;

void set_control(uint32_t value) {
  asm volatile("dsb\n\tisb" ::: "memory");
  reg(kControl) = value;
  asm volatile("dsb\n\tisb" ::: "memory");
}

}  // namespace

size_t protected_regions() { return reg(kType) >> kTypeRegionsShift & kTypeRegionsMask; }

void begin_protection() { set_control(kEnable); }

void end_protection() { set_control(0); }

}  // namespace cria::firmware_test
