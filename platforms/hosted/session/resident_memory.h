// Resident memory of this process.
#pragma once

#include <cstdint>

namespace cria::hosted {

// Bytes at the highest; 0 where the system does not tell.
uint64_t peak_resident_bytes();

// Lets the highest start again from what is resident now; false where the system does not (it needs
// Linux and a process that may write its own /proc/self/clear_refs).
bool reset_peak_resident();

}  // namespace cria::hosted
