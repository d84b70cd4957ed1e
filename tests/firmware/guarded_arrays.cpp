#include "tests/firmware/guarded_arrays.h"

#include <cstring>

#include "platforms/cortex_m/console.h"
#include "platforms/cortex_m/startup.h"
#include "tests/firmware/protection_unit.h"

namespace cria::firmware_test {
namespace {

constexpr size_t kGap = 256;  // between regions: more than a kernel reads at once
constexpr size_t kProgramRegions = 2;
constexpr uint8_t kFilling = 0xa5;

uintptr_t address(const void* p) { return reinterpret_cast<uintptr_t>(p); }

void set_program_regions() {
  set_region(0, address(firmware_code_begin), address(firmware_code_end), Access::kProgram);
  set_region(1, address(firmware_variables_begin), address(firmware_variables_end),
             Access::kReadWrite);
}

bool is_filling(const uint8_t* from, const uint8_t* to) {
  for (; from < to; ++from) {
    if (*from != kFilling) return false;
  }
  return true;
}

}  // namespace

GuardedArrays::GuardedArrays(std::span<uint8_t> memory) : memory_(memory) {
  if (protected_regions() < kProgramRegions + kMostRegions) {
    cortex_m::fail("too few protected regions");
  }
  set_program_regions();
}

void GuardedArrays::clear() {
  used_bytes_ = 0;
  n_regions_ = 0;
}

uint8_t* GuardedArrays::place_bytes(size_t n_bytes, Side side, Use use) {
  used_bytes_ += kGap;
  if (n_bytes == 0) return memory_.data() + used_bytes_;
  const RegionGrid grid = region_grid(n_bytes);
  const size_t region_bytes = (n_bytes + grid.step - 1) / grid.step * grid.step;
  // The end that the array touches is aligned.
  const size_t before = side == Side::kBegin ? 0 : region_bytes;
  const uintptr_t touched = (address(memory_.data()) + used_bytes_ + before + grid.alignment - 1) &
                            ~uintptr_t{grid.alignment - 1};
  used_bytes_ = touched - before + region_bytes - address(memory_.data());
  if (used_bytes_ + kGap > memory_.size() || n_regions_ == kMostRegions) {
    cortex_m::fail("too much to guard");
  }
  uint8_t* const begin = memory_.data() + used_bytes_ - region_bytes;
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
    set_region(kProgramRegions + i, address(regions_[i].begin), address(regions_[i].end),
               regions_[i].use == Use::kInput ? Access::kReadOnly : Access::kReadWrite);
  }
  begin_protection();
}

void GuardedArrays::lower() {
  end_protection();
  for (size_t i = 0; i < n_regions_; ++i) {
    const Region& region = regions_[i];
    if (!is_filling(region.begin, region.array) ||
        !is_filling(region.array + region.array_bytes, region.end)) {
      cortex_m::fail("bytes beside an array were written");
    }
  }
}

}  // namespace cria::firmware_test
