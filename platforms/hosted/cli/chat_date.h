// The day that conversations name.
#pragma once

#include <string>

#include "platforms/hosted/session/model_session.h"

namespace cria::hosted {

// YYYY-MM-DD, written as the template writes dates. Throws ProgramError kUsage for what is no day,
// kInvalidInput when the template names none.
void set_chat_date(const ModelSession& model, const std::string& day);

}  // namespace cria::hosted
