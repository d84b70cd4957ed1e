#include "platforms/hosted/serve/failure.h"

#include <cstring>
#include <exception>
#include <new>

namespace cria::hosted {

Failure Failure::at_hand() noexcept {
  Failure failure;
  const auto say = [&failure](const char* what) {
    std::strncpy(failure.what_.data(), what, failure.what_.size() - 1);
  };
  try {
    throw;
  } catch (const std::bad_alloc&) {
    failure.is_want_of_memory_ = true;
    say("out of memory");
  } catch (const std::exception& error) {
    say(error.what());
  } catch (...) {
    say("an unknown error");
  }
  return failure;
}

}  // namespace cria::hosted
