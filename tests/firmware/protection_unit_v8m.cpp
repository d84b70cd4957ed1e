// Armv8-M (PMSAv8): regions of any number of 32-byte granules.
#include "tests/firmware/protection_registers.h"
#include "tests/firmware/protection_unit.h"

#if __ARM_ARCH < 8
#error "Armv7-M has another protection unit: protection_unit_v7m.cpp."
#endif

namespace cria::firmware_test {
namespace {

constexpr uintptr_t kRegionLimit = 0xe000eda0;
constexpr uintptr_t kAttributes = 0xe000edc0;

constexpr uint32_t kEnable = 1;
constexpr uint32_t kNormalMemory = 0x44;  // not cached
constexpr uint32_t kReadWrite = 0u << 1;
constexpr uint32_t kReadOnly = 2u << 1;
constexpr uint32_t kNeverExecute = 1;

constexpr size_t kGranule = 32;
constexpr uintptr_t kGranuleMask = kGranule - 1;

uint32_t bits_of(Access access) {
  if (access == Access::kProgram) return kReadOnly;
  return (access == Access::kReadOnly ? kReadOnly : kReadWrite) | kNeverExecute;
}

}  // namespace

RegionGrid region_grid(size_t /*n_bytes*/) { return {kGranule, kGranule}; }

void set_region(size_t number, uintptr_t begin, uintptr_t end, Access access) {
  reg(kAttributes) = kNormalMemory;
  reg(kRegionNumber) = static_cast<uint32_t>(number);
  reg(kRegionBase) = static_cast<uint32_t>(begin & ~kGranuleMask) | bits_of(access);
  reg(kRegionLimit) = static_cast<uint32_t>((end - 1) & ~kGranuleMask) | kEnable;
}

void drop_region(size_t number) {
  reg(kRegionNumber) = static_cast<uint32_t>(number);
  reg(kRegionLimit) = 0;
}

}  // namespace cria::firmware_test
