#include "tests/firmware/guarded_arrays.h"

#include <cstring>

#include "platforms/cortex_m/console.h"
#include "platforms/cortex_m/startup.h"

namespace cria::firmware_test {
namespace {

// Registers of the memory protection unit.
constexpr uintptr_t kType = 0xe000ed90;
constexpr uintptr_t kControl = 0xe000ed94;
constexpr uintptr_t kRegionNumber = 0xe000ed98;
constexpr uintptr_t kRegionBase = 0xe000ed9c;
constexpr uintptr_t kRegionLimit = 0xe000eda0;
constexpr uintptr_t kAttributes = 0xe000edc0;

constexpr uint32_t kEnable = 1;  // of the unit without a background region, and of a region
constexpr uint32_t kNormalMemory = 0x44;  // not cached
constexpr uint32_t kReadWrite = 0u << 1;
constexpr uint32_t kReadOnly = 2u << 1;
constexpr uint32_t kNeverExecute = 1;
constexpr unsigned kTypeRegionsShift = 8;
constexpr uint32_t kTypeRegionsMask = 0xff;

constexpr size_t kGranule = 32;
constexpr uintptr_t kGranuleMask = kGranule - 1;
constexpr size_t kGap = 256;  // between regions: more than a kernel reads at once
constexpr size_t kProgramRegions = 2;
constexpr uint8_t kFilling = 0xa5;

volatile uint32_t& reg(uintptr_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }

uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

void barrier() { asm volatile("dsb\n\tisb" ::: "memory"); }

// Region [begin, end), rounded outwards to granules.
void set_region(size_t number, uintptr_t begin, uintptr_t end, uint32_t access) {
  reg(kRegionNumber) = static_cast<uint32_t>(number);
  reg(kRegionBase) = static_cast<uint32_t>(begin & ~kGranuleMask) | access;
  reg(kRegionLimit) = static_cast<uint32_t>((end - 1) & ~kGranuleMask) | kEnable;
}

void drop_region(size_t number) {
  reg(kRegionNumber) = static_cast<uint32_t>(number);
  reg(kRegionLimit) = 0;
}

void set_program_regions() {
  const uintptr_t data_bytes = address(firmware_data_end) - address(firmware_data_begin);
  set_region(0, 0, address(firmware_data_image) + data_bytes, kReadOnly);
  set_region(1, address(firmware_data_begin), address(firmware_stack_top),
             kReadWrite | kNeverExecute);
}

bool is_filling(const uint8_t* from, const uint8_t* to) {
  for (; from < to; ++from) {
    if (*from != kFilling) return false;
  }
  return true;
}

}  // namespace

GuardedArrays::GuardedArrays(std::span<uint8_t> memory) : memory_(memory) {
  const uint32_t n_regions = reg(kType) >> kTypeRegionsShift & kTypeRegionsMask;
  if (n_regions < kProgramRegions + kMostRegions) cortex_m::fail("too few protected regions");
  reg(kAttributes) = kNormalMemory;
  set_program_regions();
}

void GuardedArrays::clear() {
  used_bytes_ = 0;
  n_regions_ = 0;
}

uint8_t* GuardedArrays::place_bytes(size_t n_bytes, Side side, Use use) {
  used_bytes_ += kGap;
  uint8_t* begin = memory_.data() + used_bytes_;
  if (n_bytes == 0) return begin;
  const size_t region_bytes = (n_bytes + kGranuleMask) & ~size_t{kGranuleMask};
  used_bytes_ += region_bytes;
  if (used_bytes_ + kGap > memory_.size() || n_regions_ == kMostRegions) {
    cortex_m::fail("too much to guard");
  }
  std::memset(begin, kFilling, region_bytes);
  uint8_t* array = side == Side::kBegin ? begin : begin + region_bytes - n_bytes;
  regions_[n_regions_++] = {begin, begin + region_bytes, array, n_bytes, use};
  return array;
}

void GuardedArrays::raise() {
  for (size_t i = 0; i < kMostRegions; ++i) {
    if (i >= n_regions_) {
      drop_region(kProgramRegions + i);
      continue;
    }
    const uint32_t access = regions_[i].use == Use::kInput ? kReadOnly : kReadWrite;
    set_region(kProgramRegions + i, address(regions_[i].begin), address(regions_[i].end),
               access | kNeverExecute);
  }
  barrier();
  reg(kControl) = kEnable;
  barrier();
}

void GuardedArrays::lower() {
  barrier();
  reg(kControl) = 0;
  barrier();
  for (size_t i = 0; i < n_regions_; ++i) {
    const Region& region = regions_[i];
    if (!is_filling(region.begin, region.array) ||
        !is_filling(region.array + region.array_bytes, region.end)) {
      cortex_m::fail("bytes beside an array were written");
    }
  }
}

}  // namespace cria::firmware_test
