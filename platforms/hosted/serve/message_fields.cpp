#include "platforms/hosted/serve/message_fields.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "platforms/hosted/base/print_format.h"
#include "platforms/hosted/base/shown_text.h"
#include "platforms/hosted/serve/api_error.h"
#include "platforms/hosted/session/model_text.h"

namespace cria::hosted {

void refuse_message(size_t index, const std::string& what) {
  throw ApiError(ErrorKind::kInvalidRequest, text_of("message %zu ", index + 1) + what, "messages");
}

cria_role read_role(const Fields& message, size_t index) {
  const Json* const role = message.find("role");
  if (role == nullptr || !role->is_string()) refuse_message(index, "has no role");
  const std::string name = role->get<std::string>();
  const Json* const calls = message.find("tool_calls");
  if (name == "tool" || name == "function" || (calls != nullptr && !calls->empty())) {
    refuse_message(index, "is about a tool; tools are not supported");
  }
  const std::optional<cria_role> known = role_of(name);
  if (!known) {
    refuse_message(index,
                   "has the role '" + shown(name) + "'; system, user and assistant are known");
  }
  return *known;
}

}  // namespace cria::hosted
