// Resident memory of this process.
#pragma once

#include <cstdint>

namespace cria::hosted {

// Bytes at the highest; 0 where the system does not tell.
uint64_t peak_resident_bytes();

// Lets the highest start again from what is resident now, where the system can (Linux).
void reset_peak_resident();

}  // namespace cria::hosted
