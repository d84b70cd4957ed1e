// The ways a target runs the library's tasks.
#pragma once

#include <cstdint>

#include "runtime/cria.h"

namespace cria::fuzz {

enum class TaskOrder : uint8_t { kForward = 0, kBackward = 1, kThreads = 2 };
inline constexpr uint8_t kTaskOrders = 3;

// On the calling thread, the first or the last task first; or a thread a task.
[[nodiscard]] cria_parallel_for hook_for(TaskOrder order);

}  // namespace cria::fuzz
