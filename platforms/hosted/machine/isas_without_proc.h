// The instruction sets of a CPU without a file system's help.
#pragma once

#include <cstdint>

namespace cria::hosted {

// CRIA_ISA_ bits of this CPU, the scalar one always among them, by its own word (x86) or by what
// the kernel gave the process at its start (Arm). Never fails. cpuinfo, which also knows of cores
// that deny what they have, reads /proc/cpuinfo, and a chroot or a sandbox may be without it.
uint32_t isas_without_proc();

}  // namespace cria::hosted
