// How many cores of the machine are worth a thread each.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace cria::hosted {

// A logical processor as cpuinfo sees it.
struct LogicalProcessor {
  uint32_t id;            // the system's number
  uint64_t frequency_hz;  // 0 where unknown
  uint32_t smt_id;        // its place among those of its core, from 0
};

// Cores whose clock is within a fifth of the fastest one's; all where clocks are unknown. So a
// phone's one prime core and its big cores count, its little ones do not. Which processors share a
// core is what the system says in folder (Linux's /sys/devices/system/cpu), since cpuinfo goes by
// CPUID, which virtual machines leave half empty; cpuinfo's word counts where the system says
// nothing.
uint32_t count_fast_cores(std::span<const LogicalProcessor> processors, const std::string& folder);

// The same of this machine; 0 where cpuinfo cannot know its processors, as without /proc and /sys.
uint32_t count_fast_cores();

}  // namespace cria::hosted
