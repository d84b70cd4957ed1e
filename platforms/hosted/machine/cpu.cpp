#include "platforms/hosted/machine/cpu.h"

#include <cpuinfo.h>
#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <cria.h>
#include "platforms/hosted/base/cgroup_limits.h"
#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/machine/fast_cores.h"
#include "platforms/hosted/machine/isas_without_proc.h"

namespace cria::hosted {
namespace {

uint32_t count_allowed() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 0;
  return static_cast<uint32_t>(CPU_COUNT(&allowed));
}

// The first text in /proc/cpuinfo that a line has after a beginning of scanf's; empty without one.
std::string proc_cpuinfo(const char* format) {
  std::FILE* const file = std::fopen("/proc/cpuinfo", "re");
  if (file == nullptr) return {};
  char line[256];
  char text[128] = "";
  while (text[0] == '\0' && std::fgets(line, sizeof(line), file) != nullptr) {
    if (std::sscanf(line, format, text) != 1) text[0] = '\0';
  }
  std::fclose(file);
  return text;
}

std::string cpu_name() {
  std::string name;
  if (knows_processors() && cpuinfo_get_packages_count() > 0) {
    name = cpuinfo_get_package(0)->name;
  }
  if (name.empty()) name = proc_cpuinfo("model name : %127[^\n]");
  return name.empty() ? "unknown CPU" : name;
}

}  // namespace

// cpuinfo ends the program by a signal where it finds no processor.
bool knows_processors() {
  static const bool is_known =
      !proc_cpuinfo("processor : %127[0-9]").empty() && cpuinfo_initialize();
  return is_known;
}

CpuCounts count_cpus() {
  return {.fast_cores = count_fast_cores(),
          .allowed = count_allowed(),
          .quota = cgroup_limits().processors,
          .any = std::thread::hardware_concurrency()};
}

uint32_t choose_threads(const CpuCounts& counts) {
  uint32_t threads = counts.fast_cores != 0 ? counts.fast_cores : counts.any;
  if (threads == 0) threads = 1;
  if (counts.allowed != 0) threads = std::min(threads, counts.allowed);
  if (counts.quota != 0) threads = std::min(threads, counts.quota);
  return std::clamp(threads, 1U, kMostThreads);
}

uint32_t default_threads() { return choose_threads(count_cpus()); }

std::string machine_description() {
  const CpuCounts counts = count_cpus();
  const bool knows_cores = counts.fast_cores != 0;
  const uint32_t n = knows_cores ? counts.fast_cores : counts.any;
  std::string text = text_of("%s, %u %s%s", cpu_name().c_str(), n,
                             knows_cores ? "core" : "processor", n == 1 ? "" : "s");
  const std::string features = isa_features();
  if (!features.empty()) text += "; " + features;
  return text;
}

uint32_t arm_isas(const ArmFeatures& features) {
  if (!features.neon || !features.vfpv4) return 0;
  uint32_t mask = CRIA_ISA_NEON;
  if (features.dotprod) mask |= CRIA_ISA_DOTPROD;
  if (features.i8mm) mask |= CRIA_ISA_I8MM;
  return mask;
}

namespace {

uint32_t this_arm_isas() {
  return arm_isas({.neon = cpuinfo_has_arm_neon(),
                   .vfpv4 = cpuinfo_has_arm_neon_fma() && cpuinfo_has_arm_vfpv4(),
                   .dotprod = cpuinfo_has_arm_neon_dot(),
                   .i8mm = cpuinfo_has_arm_i8mm()});
}

struct Detection {
  uint32_t isa;
  bool (*cpu_has)();
};

bool has_avx2_and_f16c() { return cpuinfo_has_x86_avx2() && cpuinfo_has_x86_f16c(); }

constexpr Detection kDetections[] = {
    {CRIA_ISA_SCALAR, [] { return true; }},
    {CRIA_ISA_SSE4_1, [] { return cpuinfo_has_x86_sse4_1(); }},
    {CRIA_ISA_AVX2, has_avx2_and_f16c},
    {CRIA_ISA_AVX_VNNI, [] { return has_avx2_and_f16c() && cpuinfo_has_x86_avxvnni(); }},
    {CRIA_ISA_AVX512_VNNI,
     [] {
       return cpuinfo_has_x86_avx512vnni() && cpuinfo_has_x86_avx512f() &&
              cpuinfo_has_x86_avx512bw() && cpuinfo_has_x86_avx512dq() &&
              cpuinfo_has_x86_avx512vl();
     }},
    {CRIA_ISA_NEON, [] { return (this_arm_isas() & CRIA_ISA_NEON) != 0; }},
    {CRIA_ISA_DOTPROD, [] { return (this_arm_isas() & CRIA_ISA_DOTPROD) != 0; }},
    {CRIA_ISA_I8MM, [] { return (this_arm_isas() & CRIA_ISA_I8MM) != 0; }},
};

}  // namespace

uint32_t detectable_isas() {
  uint32_t mask = 0;
  for (const Detection& detection : kDetections) mask |= detection.isa;
  return mask;
}

uint32_t cpu_isas() {
  if (!knows_processors()) return isas_without_proc();
  uint32_t mask = 0;
  for (const Detection& detection : kDetections) {
    if (detection.cpu_has()) mask |= detection.isa;
  }
  return mask;
}

std::vector<IsaName> isa_names(uint32_t isas) {
  std::vector<IsaName> names;
  for (; isas != 0; isas &= isas - 1) {
    const uint32_t lowest = isas & (~isas + 1);
    names.push_back({cria_instruction_set_name(lowest), lowest});
  }
  return names;
}

std::string isa_features() {
  std::string text;
  for (const IsaName& isa : isa_names(cpu_isas() & ~uint32_t{CRIA_ISA_SCALAR})) {
    if (!text.empty()) text += ' ';
    text += isa.name;
  }
  return text;
}

}  // namespace cria::hosted
