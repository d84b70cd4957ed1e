#include "platforms/hosted/session/resident_memory.h"

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace cria::hosted {

// VmHWM first: getrusage's figure includes what the process was before exec.
uint64_t peak_resident_bytes() {
  constexpr uint64_t kKilobyte = 1024;
  constexpr int kDecimal = 10;
  constexpr char kField[] = "VmHWM:";
  unsigned long kilobytes = 0;
  if (std::FILE* const file = std::fopen("/proc/self/status", "re"); file != nullptr) {
    char line[256];
    while (std::fgets(line, sizeof(line), file) != nullptr) {
      if (std::strncmp(line, kField, std::strlen(kField)) == 0) {
        kilobytes = std::strtoul(line + std::strlen(kField), nullptr, kDecimal);
      }
    }
    std::fclose(file);
  }
  if (kilobytes == 0) {
    rusage usage = {};
    if (::getrusage(RUSAGE_SELF, &usage) == 0) {
      kilobytes = static_cast<unsigned long>(usage.ru_maxrss);
    }
  }
  return kilobytes * kKilobyte;
}

bool reset_peak_resident() {
  std::FILE* const file = std::fopen("/proc/self/clear_refs", "we");
  if (file == nullptr) return false;
  const bool is_put = std::fputs("5", file) >= 0;
  return std::fclose(file) == 0 && is_put;  // written at the close
}

}  // namespace cria::hosted
