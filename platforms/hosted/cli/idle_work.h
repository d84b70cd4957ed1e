// What is done while a program waits for its user.
#pragma once

#include <functional>

namespace cria::hosted {

// Work for the time in which nothing can be read: does a part of it, and ends at once when
// something can be; false when nothing is left.
using IdleWork = std::function<bool()>;

// Whether reading would not wait: bytes are there, or the end.
bool can_read(int descriptor);

// Works, part by part, until something can be read, Ctrl-C comes or nothing is left.
void work_until_input(int descriptor, const IdleWork& work);

}  // namespace cria::hosted
