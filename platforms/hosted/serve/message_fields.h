// What the messages of every style's conversations share.
#pragma once

#include <cstddef>
#include <string>

#include "platforms/hosted/serve/json_fields.h"
#include "platforms/hosted/serve/text_service.h"

namespace cria::hosted {

// "message 1 has no role": throws ApiError.
[[noreturn]] void refuse_message(size_t index, const std::string& what);

// Throws ApiError for what is about a tool, and for a role that is not known.
cria_role read_role(const Fields& message, size_t index);

}  // namespace cria::hosted
