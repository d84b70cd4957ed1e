// Replies as they stand on the line.
#pragma once

#include <string>

#include "platforms/hosted/serve/http_types.h"

namespace cria::hosted {

// "Not Found"
const char* reason_of(int status);

// A whole answer, after which the connection closes.
std::string closing_text(const Reply& reply);

}  // namespace cria::hosted
