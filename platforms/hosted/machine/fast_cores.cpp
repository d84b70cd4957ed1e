#include "platforms/hosted/machine/fast_cores.h"

#include <cpuinfo.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "platforms/hosted/machine/cpu.h"

namespace cria::hosted {
namespace {

// The lowest processor of the core that this one is of: of a list such as "0,4" or "2-3".
std::optional<uint32_t> first_of_core(const std::string& folder, uint32_t id) {
  const std::string path = folder + "/cpu" + std::to_string(id) + "/topology/thread_siblings_list";
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return std::nullopt;
  char line[32];  // the rest of a longer list is not asked for
  const bool is_read = std::fgets(line, sizeof(line), file) != nullptr;
  std::fclose(file);
  constexpr int kDecimal = 10;
  char* end = line;
  const unsigned long first = is_read ? std::strtoul(line, &end, kDecimal) : 0;
  if (end == line || first > id) return std::nullopt;
  return static_cast<uint32_t>(first);
}

}  // namespace

uint32_t count_fast_cores(std::span<const LogicalProcessor> processors, const std::string& folder) {
  uint64_t fastest_hz = 0;
  for (const LogicalProcessor& processor : processors) {
    fastest_hz = std::max(fastest_hz, processor.frequency_hz);
  }
  uint32_t cores = 0;
  for (const LogicalProcessor& processor : processors) {
    if (processor.frequency_hz < fastest_hz / 5 * 4) continue;
    const std::optional<uint32_t> first = first_of_core(folder, processor.id);
    if (first ? *first == processor.id : processor.smt_id == 0) ++cores;
  }
  return cores;
}

uint32_t count_fast_cores() {
  if (!knows_processors()) return 0;
  std::vector<LogicalProcessor> processors;
  for (uint32_t i = 0; i < cpuinfo_get_processors_count(); ++i) {
    const cpuinfo_processor* const processor = cpuinfo_get_processor(i);
    processors.push_back({.id = static_cast<uint32_t>(processor->linux_id),
                          .frequency_hz = processor->cluster->frequency,
                          .smt_id = processor->smt_id});
  }
  return count_fast_cores(processors, "/sys/devices/system/cpu");
}

}  // namespace cria::hosted
