// The ways a target runs the library's tasks.
#pragma once

#include <cstdint>

#include <cria.h>

namespace cria::fuzz {

enum class TaskOrder : uint8_t { kForward = 0, kBackward = 1, kThreads = 2 };
inline constexpr uint8_t kTaskOrders = 3;

// Sets the hook: on the calling thread, the first or the last task first; or a thread a task, for
// the first n_threaded calls, since the sanitizers make a thread's start dear. One config at a
// time.
void set_hook(TaskOrder order, uint32_t n_threaded, cria_config* config);

}  // namespace cria::fuzz
