// The core's memory protection unit: regions that the program reaches, and a fault for everything
// else. Two architectures of it exist; the build takes the one of its core.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria::firmware_test {

enum class Access { kProgram, kReadOnly, kReadWrite };  // nothing but programs is executed

// What fits the unit around an array of n_bytes: a region's end that lies on a multiple of the
// alignment is exact, its other end lies on a multiple of the step from there.
struct RegionGrid {
  size_t alignment;
  size_t step;
};
[[nodiscard]] RegionGrid region_grid(size_t n_bytes);

// Regions the unit has; 0 where there is no unit.
[[nodiscard]] size_t protected_regions();
// Lets the program reach [begin, end), widened to what the unit can tell apart. Regions do not
// overlap.
void set_region(size_t number, uintptr_t begin, uintptr_t end, Access access);
void drop_region(size_t number);

// From the one to the other nothing is reached but regions.
void begin_protection();
void end_protection();

}  // namespace cria::firmware_test
