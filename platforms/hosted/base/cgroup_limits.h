// What a container may have of its machine: the limits of the control groups of this process.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace cria::hosted {

struct CgroupLimits {
  uint64_t memory_bytes = std::numeric_limits<uint64_t>::max();  // where there is no limit
  uint32_t processors = 0;  // of the CPU quota, rounded up; 0: there is none
};

// The least of this process's groups and of those that they are in, as far as they can be seen;
// version 1 and 2. Never fails: what cannot be read, or is no limit, limits nothing. root stands
// before /proc and /sys, for tests.
CgroupLimits cgroup_limits(const std::string& root = {});

}  // namespace cria::hosted
