// What the system says went wrong, in words.
#pragma once

#include <string>

namespace cria::hosted {

// The system's message for error_number; where something has run out, with what to do about it.
std::string system_error_text(int error_number);

}  // namespace cria::hosted
