// What a saved state says before it is loaded.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cria {

// The positions of a state that cria_state_load takes; of other bytes anything.
[[nodiscard]] uint32_t positions_of_state(const uint8_t* state, size_t n_bytes);

}  // namespace cria
