#include "platforms/hosted/cli/idle_work.h"

#include <poll.h>

#include "platforms/hosted/session/interrupt.h"

namespace cria::hosted {

bool can_read(int descriptor) {
  pollfd waiting = {.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, 0) > 0;
}

void work_until_input(int descriptor, const IdleWork& work) {
  while (work && !interrupted() && !can_read(descriptor) && work()) {
  }
}

}  // namespace cria::hosted
