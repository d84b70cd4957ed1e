// Resident memory of this process.
#pragma once

#include <cstdint>

namespace cria::hosted {

// Bytes at the highest; 0 where the system does not tell.
uint64_t peak_resident_bytes();

}  // namespace cria::hosted
