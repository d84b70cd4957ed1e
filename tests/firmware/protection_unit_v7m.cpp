// Armv7-M (PMSAv7): regions are aligned blocks of a power of two of bytes, an eighth of which can
// be left out.
#include <bit>

#include "tests/firmware/protection_registers.h"
#include "tests/firmware/protection_unit.h"

#if __ARM_ARCH != 7
#error "Armv8-M has another protection unit: protection_unit_v8m.cpp."
#endif

namespace cria::firmware_test {
namespace {

constexpr uintptr_t kRegionSize = 0xe000eda0;  // and attributes

constexpr uint32_t kEnable = 1;
constexpr unsigned kSizeShift = 1;
constexpr unsigned kLeftOutShift = 8;
constexpr uint32_t kNormalMemory = 1u << 19;  // not cached
constexpr uint32_t kReadWrite = 3u << 24;
constexpr uint32_t kReadOnly = 6u << 24;
constexpr uint32_t kNeverExecute = 1u << 28;

constexpr size_t kEighths = 8;
constexpr size_t kSmallest = 256;  // smaller ones have no eighths

uint32_t bits_of(Access access) {
  if (access == Access::kProgram) return kReadOnly;
  return (access == Access::kReadOnly ? kReadOnly : kReadWrite) | kNeverExecute;
}

}  // namespace

RegionGrid region_grid(size_t n_bytes) {
  const size_t block = n_bytes < kSmallest ? kSmallest : std::bit_ceil(n_bytes);
  return {block, block / kEighths};
}

void set_region(size_t number, uintptr_t begin, uintptr_t end, Access access) {
  uintptr_t block = kSmallest;
  while ((begin & ~(block - 1)) + block < end) block *= 2;
  const uintptr_t base = begin & ~(block - 1);
  uint32_t left_out = 0;
  for (size_t i = 0; i < kEighths; ++i) {
    const uintptr_t eighth = base + i * (block / kEighths);
    if (eighth + block / kEighths <= begin || eighth >= end) left_out |= 1u << i;
  }
  reg(kRegionNumber) = static_cast<uint32_t>(number);
  reg(kRegionBase) = static_cast<uint32_t>(base);
  reg(kRegionSize) = bits_of(access) | kNormalMemory | left_out << kLeftOutShift |
                     static_cast<uint32_t>(std::countr_zero(block) - 1) << kSizeShift | kEnable;
}

void drop_region(size_t number) {
  reg(kRegionNumber) = static_cast<uint32_t>(number);
  reg(kRegionSize) = 0;
}

}  // namespace cria::firmware_test
